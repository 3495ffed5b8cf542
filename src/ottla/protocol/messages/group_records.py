"""The records of `__consumer_offsets`: what a coordinator knows about its groups.

Keys and values are byte strings that begin with the int16 of their version (`ottla.protocol.versioned`). The version
of a key also says what it is a key of: 0 and 1 an offset, 2 a group. A value that is null removes.
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int32, int64
from ottla.protocol.schema import Data, Message, data, since


@data(versions=(0, 1))
class OffsetCommitKey(Data):
    """Which offset: of a group in a partition."""

    group: str = ""
    topic: str = ""
    partition: int32 = 0


@data(versions=(0, 4), flexible_from=4)
class OffsetCommitValue(Data):
    """How far the group has read.

    v1   says when it expires (since v2 the broker's setting counts)
    v3   the leader epoch
    v4   is the first flexible version
    """

    offset: int64 = 0
    leader_epoch: int32 = since(3, default=-1)
    metadata: str = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = since(1, until=1, default=-1)


@data(versions=(2, 2))
class GroupMetadataKey(Data):
    """Which group."""

    group: str = ""


class MemberMetadata(Message):
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None)
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int32 = since(1, default=-1)
    session_timeout: int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@data(versions=(0, 4), flexible_from=4)
class GroupMetadataValue(Data):
    """A group between two rebalances: its generation and its members.

    v1   how long a rebalance may take
    v2   since when the group has been in this state
    v3   instance ids of static members
    v4   is the first flexible version
    """

    protocol_type: str = ""
    generation: int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int64 = since(2, default=-1)
    members: Sequence[MemberMetadata] = ()

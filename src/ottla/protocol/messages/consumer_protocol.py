"""What members of a classic consumer group say to each other through the coordinator, which does not look at it.

Each is kept in a byte string, after the int16 of its version (`ottla.protocol.versioned`). Versions only add fields
at the end, so that a reader may read a newer one as the newest that it knows.

v1   the partitions that a member owns (cooperative rebalancing)
v2   the generation in which it got them
v3   the member's rack
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int32
from ottla.protocol.schema import Data, Message, data, since


class TopicPartition(Message):
    topic: str = ""
    partitions: Sequence[int32] = ()


@data(versions=(0, 3))
class ConsumerProtocolSubscription(Data):
    """In JoinGroup: what a member wants to read."""

    topics: Sequence[str] = ()
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = since(1)
    generation_id: int32 = since(2, default=-1)
    rack_id: str | None = since(3, default=None)


@data(versions=(0, 3))
class ConsumerProtocolAssignment(Data):
    """In SyncGroup: what a member shall read."""

    assigned_partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None

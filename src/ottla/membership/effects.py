"""What comes out of the membership: packets to send, and what has happened."""

from collections.abc import Sequence
from enum import StrEnum

from ottla.membership.member import Address, Member
from ottla.values import value


class Change(StrEnum):
    JOINED = "joined"
    SUSPECTED = "suspected"
    ALIVE = "alive again"
    FAILED = "failed"
    LEFT = "left"
    RESTARTED = "restarted"
    """A new process of a member that was not known to be gone."""
    UPDATED = "updated"
    """Its addresses, its rack or its load figures are new."""


@value
class MemberChanged:
    change: Change
    member: Member


@value
class NodeIdConflict:
    """Two processes call themselves by one node id. The one that was there first keeps it, until it fails or leaves."""

    node_id: int
    held_by: Address
    claimed_by: Address


@value
class ForeignCluster:
    """A node of another cluster spoke to this one. It was not listened to."""

    cluster_id: str
    node_id: int
    address: Address


@value
class ClusterAdopted:
    """This node had no cluster yet, and is now of this one."""

    cluster_id: str


Event = MemberChanged | NodeIdConflict | ForeignCluster | ClusterAdopted


@value
class Effects:
    """What must happen next. There is no order between the two, and a packet may get lost."""

    packets: Sequence[tuple[Address, bytes]] = ()
    events: Sequence[Event] = ()


NOTHING = Effects()

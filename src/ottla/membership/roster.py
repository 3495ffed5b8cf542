"""Who is known: this node, and what it believes of the others."""

from bisect import bisect_right
from functools import cached_property

from ottla.membership.member import Member, Status
from ottla.membership.wire import Alive, Entry, Failed, Left, Loaded, Suspect

MEMBERS_MAX = 4_096
"""More are not taken in: the table must not grow with what anybody sends."""


class View:
    """The roster at one moment, and what is looked up in it often."""

    def __init__(self, me: Member, others: tuple[Member, ...]) -> None:
        self.me = me
        self.others = others

    @cached_property
    def everybody(self) -> tuple[Member, ...]:
        return tuple(sorted((self.me, *self.others), key=_node_id))

    @cached_property
    def live(self) -> tuple[Member, ...]:
        """All others that are not known to be gone, suspects included."""
        return tuple(member for member in self.others if member.is_live)

    @cached_property
    def gone(self) -> tuple[Member, ...]:
        """Those who failed or left, until they are forgotten."""
        return tuple(member for member in self.others if not member.is_live)

    @cached_property
    def failed(self) -> tuple[Member, ...]:
        return tuple(member for member in self.gone if member.status == Status.FAILED)

    @cached_property
    def successor(self) -> Member | None:
        """The unsuspected member whose node id comes next after this node's, going round. Everybody is somebody's."""
        alive = sorted((member for member in self.others if member.status == Status.ALIVE), key=_node_id)
        if not alive:
            return None
        return alive[bisect_right(alive, self.me.node_id, key=_node_id) % len(alive)]

    @property
    def size(self) -> int:
        """How many are live, this node included."""
        return len(self.live) + 1


def _node_id(member: Member) -> int:
    return member.node_id


class Roster:
    __slots__ = ("_members", "_view")

    def __init__(self, me: Member) -> None:
        self._members: dict[int, Member] = {}
        self._view = View(me, ())

    @property
    def me(self) -> Member:
        return self._view.me

    @me.setter
    def me(self, me: Member) -> None:
        self._view = View(me, self._view.others)

    @property
    def view(self) -> View:
        return self._view

    @property
    def is_full(self) -> bool:
        return len(self._members) >= MEMBERS_MAX

    def get(self, node_id: int) -> Member | None:
        """Another member."""
        return self._members.get(node_id)

    def put(self, member: Member) -> None:
        self._members[member.node_id] = member
        self._changed()

    def remove(self, node_id: int) -> None:
        del self._members[node_id]
        self._changed()

    def _changed(self) -> None:
        self._view = View(self._view.me, tuple(self._members.values()))


def status_entry(member: Member, accuser: int) -> Entry:
    """What to say of a member's status, in the name of `accuser` where it is bad."""
    about = (member.node_id, member.run_id, member.incarnation)
    match member.status:
        case Status.ALIVE:
            return Alive(*about, member.gossip, member.kafka, member.rack)
        case Status.SUSPECT:
            return Suspect(*about, accuser)
        case Status.FAILED:
            return Failed(*about, accuser)
        case Status.LEFT:
            return Left(*about)


def all_entries(member: Member, accuser: int) -> list[Entry]:
    """Everything to say of a member. Where a live one is is said first; of one that is gone nobody needs to know."""
    entries = [status_entry(member, accuser)]
    if member.status == Status.SUSPECT:
        entries.insert(0, Alive(*entries[0][:3], member.gossip, member.kafka, member.rack))
    if member.is_live and member.load_version:
        entries.append(Loaded(member.node_id, member.run_id, member.load_version, member.load))
    return entries

"""One change of one partition: who is in sync now, who may lead, who leads.

Everything that moves a leader or an in-sync replica goes through `change`, so what must hold is kept in one place:

- The leader is in sync. Only replicas that have every committed record may become the leader: those in sync or, when
  there are none left, the eligible ones (KIP-966). Another replica does only in an unclean election.
- A replica that leaves the in-sync set while that is smaller than `min.insync.replicas` becomes eligible: from then on
  nothing is committed, since a leader's high watermark stands still below that number, so it misses nothing. As soon
  as enough are in sync again, records are committed without the eligible ones, and they are none any more.
- A new leader starts a new leader epoch.

Who holds a partition is not changed here: see `reassignments`.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum

from ottla.metadata.image import NO_LEADER, PartitionImage
from ottla.protocol.messages.metadata_records import PartitionChangeRecord
from ottla.types import TopicId


class Election(IntEnum):
    """Who may become the leader."""

    PREFERRED = 0
    """The first replica if it can, even where another one leads well."""
    CLEAN = 1
    """The leader stays if it can; otherwise the first replica that has all that is committed."""
    UNCLEAN = 2
    """As before, and if there is none of these, any replica that is there: what it misses is lost."""


class Recovery(IntEnum):
    """Whether a leader still has to recover from its unclean election."""

    RECOVERED = 0
    RECOVERING = 1


def change(
    topic_id: TopicId,
    index: int,
    partition: PartitionImage,
    *,
    isr: tuple[int, ...] | None = None,
    recovery: int | None = None,
    is_active: Callable[[int], bool],
    min_insync_replicas: int,
    election: Election = Election.CLEAN,
    lost: Collection[int] = (),
) -> PartitionChangeRecord | None:
    """The record that gives a partition another `isr` or `recovery` state, and a leader if it can have one.

    None if nothing changes. `is_active` says who may lead, `lost` whose data is gone.
    """
    draft = _Draft(partition, min_insync_replicas)
    draft.isr = partition.isr if isr is None else isr
    draft.leader_recovery_state = partition.leader_recovery_state if recovery is None else recovery
    draft.find_eligible(lost)
    draft.elect(is_active, election)
    draft.note_last_leader(lost)
    return draft.record(topic_id, index)


def enough(replicas: Collection[int], min_insync_replicas: int) -> int:
    """How many must be in sync for a record to be committed: never more than there are replicas."""
    return min(min_insync_replicas, len(replicas))


class _Draft:
    """A partition on its way to its next state. Edited in place: there may be 10,000 of them in one decision."""

    __slots__ = (
        "before",
        "eligible_leader_replicas",
        "isr",
        "last_known_elr",
        "leader",
        "leader_recovery_state",
        "min_insync_replicas",
        "replicas",
    )

    def __init__(self, before: PartitionImage, min_insync_replicas: int) -> None:
        self.before = before
        self.min_insync_replicas = min_insync_replicas
        self.replicas = before.replicas
        self.leader = before.leader
        self.isr = before.isr
        self.leader_recovery_state = before.leader_recovery_state
        self.eligible_leader_replicas = before.eligible_leader_replicas
        self.last_known_elr = before.last_known_elr

    def find_eligible(self, lost: Collection[int]) -> None:
        if self._enough_in_sync():
            self.eligible_leader_replicas = ()
            return
        known = {*self.before.eligible_leader_replicas, *self.before.isr}.difference(self.isr, lost)
        self.eligible_leader_replicas = tuple(replica for replica in self.replicas if replica in known)

    def _enough_in_sync(self) -> bool:
        return len(self.isr) >= enough(self.replicas, self.min_insync_replicas)

    def elect(self, is_active: Callable[[int], bool], election: Election) -> None:
        candidates = self.isr or self.eligible_leader_replicas
        order = (self.leader, *self.replicas)
        if election is Election.PREFERRED:
            order = (self.replicas[0], *order)
        self.leader = _first(order, candidates, is_active)
        if self.leader == NO_LEADER and election is Election.UNCLEAN:
            self._elect_anybody(is_active)
        elif self.leader != NO_LEADER and not self.isr:
            self._begin_with_leader_alone()

    def _elect_anybody(self, is_active: Callable[[int], bool]) -> None:
        self.leader = _first((*self.last_known_elr, *self.replicas), self.replicas, is_active)
        if self.leader != NO_LEADER:
            self.isr = (self.leader,)
            self.eligible_leader_replicas = ()
            self.leader_recovery_state = Recovery.RECOVERING

    def _begin_with_leader_alone(self) -> None:
        """An eligible replica leads now. The others stay eligible only if it can't commit anything by itself."""
        self.isr = (self.leader,)
        others = tuple(replica for replica in self.eligible_leader_replicas if replica != self.leader)
        self.eligible_leader_replicas = () if self._enough_in_sync() else others

    def note_last_leader(self, lost: Collection[int]) -> None:
        """While nobody leads it is kept who should in an unclean election: who led last or, when that data is gone too,
        the others, which have at least something."""
        if self.leader != NO_LEADER:
            self.last_known_elr = ()
            return
        before = self.before
        if not self.isr and before.leader != NO_LEADER:
            self.last_known_elr = (before.leader,)
        had_any = before.isr or before.eligible_leader_replicas
        if had_any and not self.isr and not self.eligible_leader_replicas:
            self.last_known_elr = tuple(dict.fromkeys((*self.last_known_elr, *self.replicas)))
        if lost:
            self.last_known_elr = tuple(replica for replica in self.last_known_elr if replica not in lost)

    def record(self, topic_id: TopicId, index: int) -> PartitionChangeRecord | None:
        before = self.before
        changes = {name: getattr(self, name) for name in _FIELDS if getattr(self, name) != getattr(before, name)}
        return PartitionChangeRecord(topic_id=topic_id, partition_id=index, **changes) if changes else None


def _first(order: Sequence[int], candidates: Collection[int], is_active: Callable[[int], bool]) -> int:
    return next((replica for replica in order if replica in candidates and is_active(replica)), NO_LEADER)


_FIELDS = (
    "isr",
    "leader",
    "leader_recovery_state",
    "eligible_leader_replicas",
    "last_known_elr",
)

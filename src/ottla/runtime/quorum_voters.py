"""Who should vote: the active controller makes voters of brokers, and replaces voters that are gone.

Founders may be named by their ids alone; as soon as one is heard from, the directory that it keeps its log in is noted,
so that it is not mistaken for itself should it ever come back with an empty disk.

A second voter alone makes a cluster weaker: two must both be there. So from an odd number of voters on two are added,
one after the other, and none unless there are two to add.

A voter that has been silent for long is removed if another broker can take its place, or if it is back with an empty
disk: then it may follow the log anew, and becomes a voter again in its turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.errors import BrokerError
from ottla.metadata.placement import open_brokers
from ottla.raft.quorum import majority
from ottla.raft.voters import UNKNOWN_DIRECTORY, Voter, VoterSet
from ottla.values import value

if TYPE_CHECKING:
    from ottla.metadata.image import BrokerImage, MetadataImage
    from ottla.metadata.state import Changes
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_EVERY_MS = 500
"""While there is something to be done, or to be watched."""


@value
class Situation:
    """What the controller knows when it thinks about voters."""

    own_id: int
    voters: VoterSet
    image: MetadataImage
    voters_max: int
    directory_of: Callable[[int], bytes | None]
    """Of the nodes that have been heard from."""
    silent: frozenset[int]
    """Voters that have not been heard from for so long that they may be replaced."""

    def to_name(self) -> list[Voter]:
        """Voters whose directory is not known to the quorum, and is to this node."""
        found = []
        for voter in self.voters.voters:
            directory_id = self.directory_of(voter.node_id)
            if voter.directory_id == UNKNOWN_DIRECTORY and directory_id not in (None, UNKNOWN_DIRECTORY):
                found.append(Voter(voter.node_id, directory_id or UNKNOWN_DIRECTORY))
        return found

    def to_add(self) -> list[Voter]:
        """Brokers that should be voters, in the order in which to try them: racks without a voter first.

        One that is to be taken out of service is not made a voter again.
        """
        voters, needed, candidates = self.voters, 2 if len(self.voters) % 2 else 1, self._spare()
        if self.voters_max - len(voters) < needed or len(candidates) < needed:
            return []
        racks = [self.image.brokers[node_id].rack for node_id in voters.ids if node_id in self.image.brokers]
        ranked = sorted(candidates, key=lambda broker: (racks.count(broker.rack), broker.broker_id))
        return [Voter(broker.broker_id, broker.log_dirs[0]) for broker in ranked]

    def to_remove(self) -> list[int]:
        """Voters that are gone, if those that are left can decide that, and somebody can take their place."""
        gone = [node_id for node_id in self._missing() if node_id in self.silent]
        left = len(self.voters) - len(gone)
        if left < majority(len(self.voters) - 1):
            return []
        return [node_id for node_id in gone if self._spare() or self._has_lost_its_disk(node_id)]

    @property
    def is_settled(self) -> bool:
        """Nothing needs to be looked at until a broker comes or goes."""
        names = any(voter.directory_id == UNKNOWN_DIRECTORY for voter in self.voters.voters)
        return not names and not self.to_add() and not self._missing()

    def _spare(self) -> list[BrokerImage]:
        return [
            broker for broker in open_brokers(self.image) if broker.log_dirs and broker.broker_id not in self.voters
        ]

    def _missing(self) -> list[int]:
        """Voters that are not in service as brokers."""
        brokers = self.image.brokers
        others = [node_id for node_id in self.voters.ids if node_id != self.own_id]
        return [node_id for node_id in others if node_id not in brokers or brokers[node_id].fenced]

    def _has_lost_its_disk(self, node_id: int) -> bool:
        directory_id = self.directory_of(node_id)
        return directory_id is not None and not self.voters.admits(node_id, directory_id)


class VoterKeeper:
    def __init__(
        self,
        *,
        metadata: Metadata,
        timers: Timers,
        voters_max: int,
        replace_after_ms: int,
        directory_of: Callable[[int], bytes | None],
    ) -> None:
        """`directory_of` knows the directories of the nodes that have been heard from."""
        self._metadata = metadata
        self._timers = timers
        self._voters_max = voters_max
        self._replace_after_ms = replace_after_ms
        self._directory_of = directory_of
        self._alarm: Deadline | None = None
        metadata.on_active(self._on_active)
        metadata.listen(self._on_change)

    def _on_active(self, is_active: bool) -> None:
        self.close()
        if is_active:
            self._metadata.quorum.observe(sorted(self._metadata.image.brokers))
            self._look()

    def _on_change(self, changes: Changes) -> None:
        if changes.brokers and self._metadata.is_active and self._alarm is None:
            self._look()

    def _look(self) -> None:
        self._alarm = None
        if self._metadata.is_active:
            situation = self._situation()
            if not self._name(situation.to_name()) and not self._remove(situation.to_remove()):
                self._add(situation.to_add())
            if not situation.is_settled:
                self._alarm = self._timers.after_ms(LOOK_EVERY_MS, self._look)

    def _situation(self) -> Situation:
        quorum = self._metadata.quorum
        replicas = quorum.status().replicas
        return Situation(
            own_id=quorum.node_id,
            voters=quorum.voters,
            image=self._metadata.image,
            voters_max=self._voters_max,
            directory_of=self._directory_of,
            silent=frozenset(
                each.node_id for each in replicas if each.ticks_since_heard * quorum.tick_ms >= self._replace_after_ms
            ),
        )

    # One change at a time, and each may have to wait: for an earlier one, or for a node to catch up.

    def _name(self, voters: Sequence[Voter]) -> bool:
        return any(self._try(self._metadata.add_voter, voter) for voter in voters)

    def _remove(self, node_ids: Sequence[int]) -> bool:
        for node_id in node_ids:
            if self._try(self._metadata.remove_voter, node_id):
                log.warning("node %d is gone, and no voter of the metadata quorum any more", node_id)
                return True
        return False

    def _add(self, voters: Sequence[Voter]) -> None:
        for voter in voters:
            if self._try(self._metadata.add_voter, voter):
                log.info("node %d becomes a voter of the metadata quorum", voter.node_id)
                return

    def _try(self, change: Callable[[T], int], what: T) -> bool:
        try:
            change(what)
        except BrokerError as error:
            log.debug("the voters are not changed yet: %s", error)
            return False
        return True

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

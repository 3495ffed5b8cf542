"""Who should vote: the active controller makes voters of brokers while there are fewer than there should be.

Founders are named by their ids alone; as soon as one is heard from, the directory that it keeps its log in is noted, so
that it is not mistaken for itself should it ever come back with an empty disk.

A second voter alone makes a cluster weaker: two must both be there. So from an odd number of voters on two are added,
one after the other, and none unless there are two to add.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.errors import BrokerError
from ottla.metadata.placement import open_brokers
from ottla.raft.voters import UNKNOWN_DIRECTORY, Voter, VoterSet

if TYPE_CHECKING:
    from ottla.metadata.image import BrokerImage, MetadataImage
    from ottla.metadata.state import Changes
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

LOOK_EVERY_MS = 500
"""While there is something to be done."""


class VoterKeeper:
    def __init__(
        self,
        *,
        metadata: Metadata,
        timers: Timers,
        voters_max: int,
        directory_of: Callable[[int], bytes | None],
    ) -> None:
        """`directory_of` knows the directories of the nodes that have been heard from."""
        self._metadata = metadata
        self._timers = timers
        self._voters_max = voters_max
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
        if not self._metadata.is_active:
            return
        voters, image = self._metadata.quorum.voters, self._metadata.image
        unnamed = [voter.node_id for voter in voters.voters if voter.directory_id == UNKNOWN_DIRECTORY]
        wanted = wanted_voters(voters, image, self._voters_max)
        if unnamed:
            self._name(unnamed)
        elif wanted:
            self._add(wanted)
        if unnamed or wanted:
            self._alarm = self._timers.after_ms(LOOK_EVERY_MS, self._look)

    def _name(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            directory_id = self._directory_of(node_id)
            if directory_id is not None and self._try(Voter(node_id, directory_id)):
                return  # one change at a time

    def _add(self, wanted: Iterable[BrokerImage]) -> None:
        for broker in wanted:
            if self._try(Voter(broker.broker_id, broker.log_dirs[0])):
                log.info("node %d becomes a voter of the metadata quorum", broker.broker_id)
                return

    def _try(self, voter: Voter) -> bool:
        """It may have some of the log yet to get, or the last change may not be committed: later, then."""
        try:
            self._metadata.add_voter(voter)
        except BrokerError as error:
            log.debug("node %d is not made a voter yet: %s", voter.node_id, error)
            return False
        return True

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def wanted_voters(voters: VoterSet, image: MetadataImage, voters_max: int) -> list[BrokerImage]:
    """Brokers that should be voters, in the order in which to try them: racks without a voter first.

    One that is to be taken out of service is not made a voter again.
    """
    missing = min(voters_max, len(voters) + len(image.brokers)) - len(voters)
    needed = 2 if len(voters) % 2 else 1
    candidates = [broker for broker in open_brokers(image) if broker.log_dirs and broker.broker_id not in voters]
    if missing < needed or len(candidates) < needed:
        return []
    racks = [image.brokers[node_id].rack for node_id in voters.ids if node_id in image.brokers]
    return sorted(candidates, key=lambda broker: (racks.count(broker.rack), broker.broker_id))

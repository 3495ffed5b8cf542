"""Mistakes that people have made in Raft, planted to see whether the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from ottla.raft.core import Next
from ottla.raft.entry import Entry, EntryId, EntryKind, HardState
from ottla.raft.leader import Leader
from ottla.raft.log import RaftLog
from ottla.raft.ready import Ready
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import VoterSet
from tests.raft.host import MemoryDisk
from tests.raft.simulation import Chances, SimulatedHost, Simulation, Step


@dataclass(frozen=True, kw_only=True)
class Hunt:
    """A bug, and the weather in which it shows. Where nothing is said, every seed has its own."""

    plant: Callable[[pytest.MonkeyPatch], None]
    chances: Chances | None = None
    settings: RaftSettings | None = None
    voters: int | None = None

    def simulation(self, seed: int) -> Simulation:
        return Simulation(seed, chances=self.chances, settings=self.settings, voters=self.voters)


def vote_is_not_persisted(patch: pytest.MonkeyPatch) -> None:
    """After a crash a node votes a second time in the same term (5.2)."""

    def write_hard_state(_: Simulation, host: SimulatedHost, hard_state: HardState) -> None:
        host.disk.hard_state = HardState(term=hard_state.term)

    patch.setattr(Simulation, "write_hard_state", write_hard_state)


def acknowledged_before_written(patch: pytest.MonkeyPatch) -> None:
    """Messages leave before the entries that they acknowledge are on disk."""
    carry_out = Simulation.carry_out

    def hasty(self: Simulation, host: SimulatedHost, ready: Ready) -> Iterator[Step]:
        for outgoing in ready.messages:
            self.send(host.node_id, outgoing.to, outgoing.message)
        yield Step.MESSAGES
        object.__setattr__(ready, "messages", ())  # not a copy: the node wants its own Ready back
        yield from carry_out(self, host, ready)

    patch.setattr(Simulation, "carry_out", hasty)


def log_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Votes go to candidates whose log lacks what is committed (5.4.1)."""
    patch.setattr(RaftLog, "is_up_to_date", lambda _log, _candidate: True)


def older_terms_are_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    """A majority has an entry of an older term, and it is called committed (5.4.2, figure 8)."""

    def advance_commit(self: Leader) -> Next | None:
        log = self._core.log
        index = self.replication.agreed(log.stable_index, lambda progress: progress.match)
        log.commit_to(index)
        return self._leave_if_removed()

    patch.setattr(Leader, "_advance_commit", advance_commit)


def conflicts_are_not_removed(patch: pytest.MonkeyPatch) -> None:
    """Entries of an older leader stay behind the newer leader's on disk (5.3)."""

    def write(self: MemoryDisk, entries: Sequence[Entry]) -> None:
        place = entries[0].index - self.base.index - 1
        self.entries[place : place + len(entries)] = entries

    patch.setattr(MemoryDisk, "write", write)


def previous_entry_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Entries are taken wherever there is something before them (5.3)."""

    def matches(self: RaftLog, at: EntryId) -> bool:
        return self.base.index <= at.index <= self.last_index

    patch.setattr(RaftLog, "matches", matches)


def reads_without_a_round(patch: pytest.MonkeyPatch) -> None:
    """A leader serves reads without asking whether it still is one (8)."""
    serve = Leader._serve_reads

    def serve_at_once(self: Leader) -> None:
        for progress in self.replication.voters.values():
            progress.round_acked = self._reads.round
        serve(self)

    patch.setattr(Leader, "_serve_reads", serve_at_once)


def reads_before_the_first_commit(patch: pytest.MonkeyPatch) -> None:
    """A new leader serves reads before it knows what its predecessors have committed (8)."""
    patch.setattr(Leader, "_has_committed_in_term", True)


def voter_changes_overlap(patch: pytest.MonkeyPatch) -> None:
    """The next change does not wait for the last one (dissertation, 4.1)."""

    def change_voters(self: Leader, voters: VoterSet) -> int:
        log = self._core.log
        index = log.last_index + 1
        log.append([Entry(index=index, term=self._core.term, kind=EntryKind.VOTERS, data=voters.encode())])
        self.replication.follow_voter_set()
        return index

    patch.setattr(Leader, "_change_voters", change_voters)


NERVOUS = RaftSettings(election_ticks=3, heartbeat_ticks=1, message_bytes_max=1, inflight_messages_max=1)
"""Two nodes often campaign at once, and entries travel one by one."""

CALM = Chances(
    lose=0,
    double=0,
    delay_turns_max=1,
    cut=0,
    crash=0,
    slow_disk=0,
    early=0,
    propose=0.1,
    read=0,
    compact=0,
    change_voters=0,
    transfer=0,
    tick=1,
)

HUNTS = (
    Hunt(
        plant=vote_is_not_persisted,
        chances=replace(CALM, delay_turns_max=2, crash=0.03, crash_after={Step.VOTE: 0.5}, recover=0.9),
        settings=NERVOUS,
        voters=3,
    ),
    Hunt(
        plant=older_terms_are_committed_by_counting,
        chances=replace(CALM, crash=0.05, crash_after={Step.ENTRIES: 0.4}, recover=0.2),
        settings=NERVOUS,
        voters=3,
    ),
    Hunt(
        plant=reads_without_a_round,
        chances=replace(CALM, delay_turns_max=2, pause=0.03, resume=0.1, propose=0.5, read=1),
        settings=RaftSettings(election_ticks=6, heartbeat_ticks=1),
        voters=3,
    ),
    Hunt(
        plant=acknowledged_before_written,
        chances=replace(CALM, propose=0.5, crash=0.03, crash_after={Step.MESSAGES: 0.05}),
        voters=3,
    ),
    Hunt(plant=log_is_not_compared),
    Hunt(plant=previous_entry_is_not_compared),
    Hunt(plant=conflicts_are_not_removed),
    Hunt(plant=reads_before_the_first_commit),
    Hunt(
        plant=voter_changes_overlap,
        chances=replace(CALM, propose=0.2, read=0.2, change_voters=0.4, cut=0.1, heal=0.1),
        settings=NERVOUS,
        voters=4,
    ),
)

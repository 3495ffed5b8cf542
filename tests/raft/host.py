"""A node with a disk that survives a crash, driven as the package's docstring says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.ports import Random
from ottla.raft.entry import ORIGIN, Entry, EntryId, EntryKind, HardState, Snapshot
from ottla.raft.messages import Message, Outgoing
from ottla.raft.node import RaftNode
from ottla.raft.ready import Leadership, ReadResult, Ready
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import NO_VOTERS, VoterSet

State = tuple[bytes, ...]
"""The state machine of these tests: everything that was ever applied, in order."""


class MemoryDisk:
    """What a crash leaves: the hard state, a snapshot with its state, and entries. It is the node's `StableLog`."""

    def __init__(self, voters: VoterSet = NO_VOTERS) -> None:
        self.hard_state = HardState()
        self.snapshot = Snapshot(voters=voters)
        self.state: State = ()
        self.base = ORIGIN
        self.entries: list[Entry] = []

    @property
    def last_index(self) -> int:
        return self.base.index + len(self.entries)

    def read(self, first: int, last: int, bytes_max: int) -> Sequence[Entry]:
        assert self.base.index < first <= last <= self.last_index
        found: list[Entry] = []
        for entry in self.entries[first - self.base.index - 1 : last - self.base.index]:
            bytes_max -= entry.size_bytes
            if found and bytes_max < 0:
                break
            found.append(entry)
        return found

    def write(self, entries: Sequence[Entry]) -> None:
        del self.entries[entries[0].index - self.base.index - 1 :]
        self.entries += entries

    def install(self, snapshot: Snapshot, state: State) -> None:
        self.snapshot, self.state, self.base, self.entries = snapshot, state, snapshot.last, []

    def compact(self, snapshot: Snapshot, state: State, *, keep_entries: int = 0) -> None:
        self.snapshot, self.state = snapshot, state
        base_index = max(self.base.index, snapshot.last.index - keep_entries)
        drop = base_index - self.base.index
        if drop:
            self.base = EntryId(base_index, self.entries[drop - 1].term)
            del self.entries[:drop]


@dataclass
class Host:
    """One node, its disk and its state. `carry_out` does at once what a Ready asks for."""

    node_id: int
    disk: MemoryDisk
    settings: RaftSettings
    seed: int = 0
    make_random: Callable[[str], Random] = random.Random
    fetch_state: Callable[[EntryId], State] = lambda _: ()
    """Where the state of a snapshot comes from that the leader has offered."""

    def __post_init__(self) -> None:
        self.lives = 0
        self.restart()

    def restart(self) -> None:
        """What was not on disk is gone."""
        self.lives += 1
        self.node = RaftNode(
            node_id=self.node_id,
            stable=self.disk,
            hard_state=self.disk.hard_state,
            random=self.make_random(f"{self.seed}/{self.node_id}/{self.lives}"),
            settings=self.settings,
        )
        self.state: list[bytes] = list(self.disk.state)
        self.applied = self.disk.snapshot.last.index
        self.committed: list[Entry] = []
        self.reads: list[ReadResult] = []
        self.leaderships: list[Leadership] = []

    # Driving

    def step(self, *messages: Message) -> list[Outgoing]:
        for message in messages:
            self.node.step(message)
        return self.carry_out()

    def tick(self, count: int = 1) -> list[Outgoing]:
        sent = []
        for _ in range(count):
            self.node.tick()
            sent += self.carry_out()
        return sent

    def propose(self, *data: bytes) -> range:
        return self.node.propose(data)

    def carry_out(self) -> list[Outgoing]:
        sent: list[Outgoing] = []
        while (ready := self.node.ready()) is not None:
            self.persist(ready)
            sent += ready.messages
            self.apply(ready)
            self.node.advance(ready)
        return sent

    def persist(self, ready: Ready) -> None:
        if ready.leadership is not None:
            self.leaderships.append(ready.leadership)
        if ready.hard_state is not None:
            self.disk.hard_state = ready.hard_state
        if ready.snapshot is not None:
            self.install(ready.snapshot)
        if ready.entries:
            self.disk.write(ready.entries)

    def install(self, snapshot: Snapshot) -> None:
        self.disk.install(snapshot, self.fetch_state(snapshot.last))
        self.state = list(self.disk.state)
        self.applied = snapshot.last.index

    def apply(self, ready: Ready) -> None:
        for entry in ready.committed:
            assert entry.index == self.applied + 1, "a gap in what is applied"
            self.applied = entry.index
            if entry.kind is EntryKind.DATA:
                self.state.append(entry.data)
        self.committed += ready.committed
        self.reads += ready.reads

    def take_snapshot(self, *, keep_entries: int = 0) -> Snapshot:
        snapshot = self.node.snapshot_at(self.applied)
        assert snapshot is not None
        self.disk.compact(snapshot, tuple(self.state), keep_entries=keep_entries)
        self.node.compacted()
        return snapshot

"""Hosts and the messages between them, moved by hand: for tests that are about one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.raft.entry import EntryId
from ottla.raft.messages import Message, Outgoing
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import NO_VOTERS, VoterSet
from tests.raft.host import Host, MemoryDisk, State

ELECTION_TICKS = 10
SETTINGS = RaftSettings(election_ticks=ELECTION_TICKS, heartbeat_ticks=2, snapshot_ticks=40)


class Latest:
    """Draws the highest number: everybody waits for twice the election time-out, less one tick, and a test decides
    who is to be first."""

    def __init__(self, _seed: str = "") -> None: ...

    def randint(self, low: int, high: int) -> int:
        return high

    def randbytes(self, count: int) -> bytes:
        return bytes(count)


class Net:
    def __init__(
        self, voters: Iterable[int], *, observers: Iterable[int] = (), settings: RaftSettings = SETTINGS
    ) -> None:
        first_voters = VoterSet.of(voters)
        self.states: dict[EntryId, State] = {}
        self.hosts = {
            node_id: self._host(node_id, first_voters if node_id in first_voters else NO_VOTERS, settings)
            for node_id in (*first_voters.ids, *observers)
        }
        self.in_flight: list[Outgoing] = []
        self.cut_off: set[int] = set()
        self.down: set[int] = set()
        self.on_send: Callable[[Outgoing], None] = lambda _: None

    def _host(self, node_id: int, voters: VoterSet, settings: RaftSettings) -> Host:
        return Host(
            node_id=node_id,
            disk=MemoryDisk(voters),
            settings=settings,
            make_random=Latest,
            fetch_state=lambda at: self.states[at],
        )

    def __getitem__(self, node_id: int) -> Host:
        return self.hosts[node_id]

    @property
    def leader(self) -> Host:
        """The leader of the highest term."""
        leaders = [host for host in self.hosts.values() if host.node.is_leader and host.node_id not in self.down]
        return max(leaders, key=lambda host: host.node.term)

    # Moving on

    def send(self, outgoing: Iterable[Outgoing]) -> None:
        for each in outgoing:
            self.on_send(each)
            self.in_flight.append(each)

    def carry_out(self, node_id: int) -> None:
        self.send(self.hosts[node_id].carry_out())

    def reaches(self, sender: int, to: int) -> bool:
        return to in self.hosts and not {sender, to} & self.cut_off and to not in self.down

    def deliver(self, to: int | None = None) -> None:
        """What is in flight now, in the order in which it was sent; not what comes of it."""
        due = [each for each in self.in_flight if to in (None, each.to)]
        self.in_flight = [each for each in self.in_flight if to not in (None, each.to)]
        for each in due:
            if self.reaches(each.message.sender, each.to):
                self.send(self.hosts[each.to].step(each.message))

    def settle(self) -> None:
        """Until nobody has anything to say."""
        for node_id in self.hosts:
            if node_id not in self.down:
                self.carry_out(node_id)
        while self.in_flight:
            self.deliver()

    def tick(self, *node_ids: int, count: int = 1) -> None:
        """Without delivering anything."""
        for node_id in node_ids:
            if node_id not in self.down:
                self.send(self.hosts[node_id].tick(count))

    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick(*self.hosts)
            self.settle()

    # Elections

    def time_out(self, node_id: int) -> None:
        """Nobody has heard from a leader for an election time-out, and this node is the first to act on it."""
        for host in self.hosts.values():
            while not host.node.is_leader and host.node._core.is_in_lease and host.node_id not in self.down:
                self.tick(host.node_id)
        self.tick(node_id, count=2 * ELECTION_TICKS - 1 - self[node_id].node._core.ticks_of_silence)

    def elect(self, node_id: int) -> Host:
        self.time_out(node_id)
        self.settle()
        host = self.hosts[node_id]
        assert host.node.is_leader
        return host

    # Faults

    def crash(self, node_id: int) -> None:
        self.down.add(node_id)

    def restart(self, node_id: int) -> None:
        self.down.discard(node_id)
        self.hosts[node_id].restart()

    def lose(self, is_lost: Callable[[Message], bool] = lambda _: True) -> None:
        """Messages that are in flight are gone."""
        self.in_flight = [each for each in self.in_flight if not is_lost(each.message)]

    # Snapshots

    def take_snapshot(self, node_id: int, *, keep_entries: int = 0) -> None:
        host = self.hosts[node_id]
        snapshot = host.take_snapshot(keep_entries=keep_entries)
        self.states[snapshot.last] = tuple(host.state)

"""A cluster over a bad network, with nodes that crash at any moment. All chance comes from one seed.

Time goes in turns. In each of them messages arrive, clocks tick (not all of them, not always), some of what nodes want
done is done, and clients, operators and faults do their work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from ottla.errors import BrokerError, InvariantError
from ottla.raft.entry import ORIGIN, EntryId, HardState
from ottla.raft.messages import Message, VoteReply
from ottla.raft.ready import Ready, RoleName
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import NO_VOTERS, Voter, VoterSet
from tests.raft.checkers import (
    CommittedForever,
    ElectionSafety,
    LinearizableReads,
    LogMatching,
    SameSnapshots,
    ViolationError,
)
from tests.raft.host import Host, MemoryDisk, State

QUIET_TURNS_MAX = 1500
"""Enough for an election and for everybody to catch up, one entry at a time, once the faults are over."""


class Step(Enum):
    """Of carrying out a Ready."""

    HARD_STATE = "the hard state is on disk"
    SNAPSHOT = "the snapshot is"
    ENTRIES = "the entries are"
    VOTE = "messages are sent, a vote among them"
    MESSAGES = "other messages are sent"


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Of each event, per turn (and per message, for the network)."""

    lose: float = 0.05
    double: float = 0.05
    delay_turns_max: int = 4
    cut: float = 0.02
    heal: float = 0.05
    crash: float = 0.01
    crash_after: Mapping[Step, float] = field(default_factory=dict)
    """Between two steps of carrying out a Ready."""
    recover: float = 0.1
    pause: float = 0.0
    """A node stands still, and does not know it: a stopped process, or a long collection of garbage."""
    resume: float = 0.05
    slow_disk: float = 0.3
    early: float = 0.5
    """Messages that need not wait for the disk do not."""
    propose: float = 0.3
    read: float = 0.2
    compact: float = 0.03
    change_voters: float = 0.02
    transfer: float = 0.01
    tick: float = 0.95

    @classmethod
    def drawn(cls, draw: random.Random) -> Chances:
        """A different mix for every seed: some bugs need much of one fault and none of another."""
        return cls(
            lose=draw.choice([0, 0.02, 0.1, 0.3]),
            double=draw.choice([0, 0.1, 0.3]),
            delay_turns_max=draw.choice([1, 3, 8]),
            cut=draw.choice([0, 0.01, 0.05]),
            heal=draw.choice([0.02, 0.1]),
            crash=draw.choice([0, 0.01, 0.04]),
            crash_after={draw.choice(list(Step)): 0.05} if draw.random() < 0.5 else {},
            pause=draw.choice([0, 0.01]),
            recover=draw.choice([0.05, 0.2, 0.6]),
            slow_disk=draw.choice([0, 0.3, 0.7]),
            early=draw.choice([0, 0.5, 1]),
            propose=draw.choice([0.1, 0.4]),
            read=draw.choice([0.1, 0.5]),
            compact=draw.choice([0, 0.03, 0.1]),
            change_voters=draw.choice([0, 0, 0.03, 0.3]),
            transfer=draw.choice([0, 0.02]),
            tick=draw.choice([0.7, 0.95, 1.0]),
        )


def draw_settings(draw: random.Random) -> RaftSettings:
    """Small numbers, so that every bound is met."""
    return RaftSettings(
        election_ticks=draw.choice([3, 5, 8]),
        heartbeat_ticks=draw.choice([1, 2]),
        message_bytes_max=draw.choice([1, 80, 4096]),
        inflight_messages_max=draw.choice([1, 3, 64]),
        committed_bytes_max=draw.choice([60, 4096]),
        snapshot_ticks=30,
    )


@dataclass
class SimulatedHost(Host):
    """Carries out a Ready in its own time, and may crash between any two steps of it."""

    is_up: bool = True
    is_paused: bool = False
    work: Iterator[Step] | None = None
    """What is left to do of a Ready."""
    awaited: dict[range, int] = field(default_factory=dict)
    """Proposals of this life, and their terms."""
    reading: dict[int, int] = field(default_factory=dict)
    """What each read must see."""
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """Reads that wait until an index is applied: what they must see, and the index."""

    def lose_memory(self) -> None:
        self.is_up, self.is_paused, self.work = False, False, None
        self.awaited, self.reading, self.waiting = {}, {}, []


class Simulation:
    def __init__(
        self,
        seed: int,
        *,
        chances: Chances | None = None,
        settings: RaftSettings | None = None,
        voters: int | None = None,
    ) -> None:
        self.draw = random.Random(seed)
        self.chances = chances or Chances.drawn(self.draw)
        settings = settings or draw_settings(self.draw)
        count = voters or self.draw.choice([1, 2, 3, 3, 3, 5, 5])
        first_voters = VoterSet.of(range(1, count + 1))
        observers = self.draw.choice([0, 1, 2])
        self.hosts = {
            node_id: SimulatedHost(
                node_id=node_id,
                disk=MemoryDisk(first_voters if node_id in first_voters else NO_VOTERS),
                settings=settings,
                seed=seed,
                fetch_state=self.state_of,
            )
            for node_id in range(1, count + observers + 1)
        }
        self.turn = 0
        self.network: list[tuple[int, int, Message]] = []
        self.groups: dict[int, int] = {}
        """Which side of a cut each node is on."""
        self.is_calm = False
        self.proposed = 0
        self.acknowledged: list[int] = []
        self.reads_served = 0
        self.elections = ElectionSafety()
        self.matching = LogMatching()
        self.committed = CommittedForever()
        self.snapshots = SameSnapshots({ORIGIN: ()})
        self.reads = LinearizableReads()
        for host in self.hosts.values():
            host.node.set_contacts(self.hosts)

    def state_of(self, at: EntryId) -> State:
        return self.snapshots.states[at]

    # Running

    def run(self, turns: int) -> None:
        """Faults for `turns`, then a quiet time after which everybody must agree."""
        for _ in range(turns):
            self.one_turn()
        self.is_calm = True
        self.groups = {}
        for host in self.hosts.values():
            self.recover(host)
        self.settle(self.all_have_everything)
        acknowledged = len(self.acknowledged)
        self.settle(lambda: len(self.acknowledged) > acknowledged, proposing=True)
        self.settle(self.all_have_everything)
        self.check_that_nothing_is_lost()

    def settle(self, is_settled: Callable[[], bool], *, proposing: bool = False) -> None:
        """Without faults, this must come true."""
        quiet_until = self.turn + QUIET_TURNS_MAX
        while not is_settled():
            if self.turn == quiet_until:
                logs = [host.node._core.log for host in self.hosts.values()]
                raise ViolationError(f"not settled after a long quiet time: {len(self.leaders())} leaders, {logs}")
            for host in self.leaders() if proposing else ():
                self.propose(host)
            self.one_turn()

    def one_turn(self) -> None:
        self.turn += 1
        doings = [self.deliver, self.tick, self.work]
        if not self.is_calm:
            doings += [self.clients, self.operators, self.faults]
            self.draw.shuffle(doings)
        for do in doings:
            do()

    def tick(self) -> None:
        for host in self.live():
            if self.is_calm or self.happens(self.chances.tick):
                host.node.tick()
                self.look_at(host)

    def happens(self, chance: float) -> bool:
        return self.draw.random() < chance

    def live(self) -> list[SimulatedHost]:
        return [host for host in self.hosts.values() if host.is_up and not host.is_paused]

    def leaders(self) -> list[SimulatedHost]:
        return [host for host in self.live() if host.node.is_leader]

    # The network

    def send(self, sender: int, to: int, message: Message) -> None:
        copies = 1
        if not self.is_calm:
            copies = 0 if self.happens(self.chances.lose) else 2 if self.happens(self.chances.double) else 1
        for _ in range(copies):
            delay = 1 if self.is_calm else self.draw.randint(1, self.chances.delay_turns_max)
            self.network.append((self.turn + delay, to, message))

    def deliver(self) -> None:
        due = [item for item in self.network if item[0] <= self.turn and not self.hosts[item[1]].is_paused]
        self.network = [item for item in self.network if item[0] > self.turn or self.hosts[item[1]].is_paused]
        if not self.is_calm:
            self.draw.shuffle(due)
        for _, to, message in due:
            host = self.hosts[to]
            if host.is_up and self.groups.get(to, 0) == self.groups.get(message.sender, 0):
                host.node.step(message)
                self.look_at(host)

    # The nodes' work

    def work(self) -> None:
        for host in self.live():
            self.work_of(host)

    def work_of(self, host: SimulatedHost) -> None:
        """Go on with the Ready in hand, or take the next one; several steps of it, or none if the disk is slow."""
        if self.happens(self.chances.early):
            for outgoing in host.node.early_messages():
                self.send(host.node_id, outgoing.to, outgoing.message)
        while self.is_calm or not self.happens(self.chances.slow_disk):
            if host.work is None:
                ready = host.node.ready()
                if ready is None:
                    return
                host.work = self.carry_out(host, ready)
            step = next(host.work, None)
            if step is None:
                host.work = None
            elif self.happens(self.chances.crash_after.get(step, 0)) and not self.is_calm:
                host.lose_memory()
                return

    def carry_out(self, host: SimulatedHost, ready: Ready) -> Iterator[Step]:
        """Each step may be the last before a crash."""
        if ready.hard_state is not None:
            self.write_hard_state(host, ready.hard_state)
            yield Step.HARD_STATE
        if ready.snapshot is not None:
            host.install(ready.snapshot)
            yield Step.SNAPSHOT
        if ready.entries:
            self.matching.wrote(self.before(host, ready), ready.entries)
            host.disk.write(ready.entries)
            yield Step.ENTRIES
        for outgoing in ready.messages:
            self.send(host.node_id, outgoing.to, outgoing.message)
        yield Step.VOTE if any(is_vote(outgoing.message) for outgoing in ready.messages) else Step.MESSAGES
        for entry in ready.committed:
            self.committed.applied(host, entry)
        host.apply(ready)
        host.node.advance(ready)
        self.look_at(host)
        self.answer(host, ready)

    def write_hard_state(self, host: SimulatedHost, hard_state: HardState) -> None:
        host.disk.hard_state = hard_state

    @staticmethod
    def before(host: SimulatedHost, ready: Ready) -> EntryId:
        index = ready.entries[0].index - 1
        disk = host.disk
        if index == disk.base.index:
            return disk.base
        return EntryId(index, disk.entries[index - disk.base.index - 1].term)

    def look_at(self, host: SimulatedHost) -> None:
        leadership = host.node.leadership
        if leadership.role is RoleName.LEADER and self.elections.saw_leader(host.node_id, leadership.term):
            self.committed.elected(host, leadership.term)

    # Clients

    def clients(self) -> None:
        if self.happens(self.chances.propose):
            for host in self.leaders():
                self.propose(host)
        if self.happens(self.chances.read):
            for host in self.live():
                self.read(host)

    def propose(self, host: SimulatedHost) -> None:
        self.proposed += 1
        data = [b"%d.%d" % (self.proposed, part) for part in range(self.draw.randint(1, 3))]
        with suppress(BrokerError):  # a hand-over is under way
            host.awaited[host.propose(*data)] = host.node.term

    def read(self, host: SimulatedHost) -> None:
        try:
            read_id = host.node.read()
        except BrokerError:
            return  # it knows of no leader
        host.reading[read_id] = self.reads.began()

    def answer(self, host: SimulatedHost, ready: Ready) -> None:
        """Tell clients what a node would tell them."""
        for entry in ready.committed:
            for indexes in [indexes for indexes in host.awaited if entry.index == indexes[-1]]:
                if host.awaited.pop(indexes) == entry.term:
                    self.acknowledged.append(entry.index)
                    self.reads.acknowledged(entry.index)
        for result in ready.reads:
            must_see = host.reading.pop(result.read_id, None)
            if must_see is not None and result.index is not None:
                host.waiting.append((must_see, result.index))
        for must_see, index in host.waiting:
            if index <= host.applied:
                self.reads_served += 1
                self.reads.ended(must_see, host.applied)
        host.waiting = [waiting for waiting in host.waiting if waiting[1] > host.applied]

    # Operators

    def operators(self) -> None:
        for host in self.live():
            if self.happens(self.chances.compact) and host.work is None:
                self.compact(host)
        for host in self.leaders():
            if self.happens(self.chances.change_voters):
                self.change_voters(host)
            if self.happens(self.chances.transfer):
                with suppress(BrokerError):
                    host.node.transfer_leadership(self.draw.choice(list(self.hosts)))

    def compact(self, host: SimulatedHost) -> None:
        if host.applied > host.disk.snapshot.last.index:
            snapshot = host.node.snapshot_at(host.applied)
            if snapshot is None:
                return
            self.snapshots.took(snapshot.last, tuple(host.state))
            host.disk.compact(snapshot, tuple(host.state), keep_entries=self.draw.choice([0, 3]))
            host.node.compacted()

    def change_voters(self, host: SimulatedHost) -> None:
        node_id = self.draw.choice(list(self.hosts))
        with suppress(BrokerError):  # an earlier change is under way, say
            if node_id in host.node.voters:
                host.node.remove_voter(node_id)
            else:
                host.node.add_voter(Voter(node_id))

    # Faults

    def faults(self) -> None:
        if self.happens(self.chances.cut):
            self.groups = {node_id: self.draw.randint(0, 1) for node_id in self.hosts}
        if self.groups and self.happens(self.chances.heal):
            self.groups = {}
        for host in self.hosts.values():
            if not host.is_up:
                if self.happens(self.chances.recover):
                    self.recover(host)
            elif self.happens(self.chances.crash):
                host.lose_memory()
            elif host.is_paused:
                if self.happens(self.chances.resume):
                    self.resume(host)
            elif self.happens(self.chances.pause):
                host.is_paused = True

    def resume(self, host: SimulatedHost) -> None:
        """It goes on where it stood, before it hears of all that has been sent to it."""
        host.is_paused = False
        for place, (due, to, message) in enumerate(self.network):
            if to == host.node_id:
                soon = self.turn + self.draw.randint(1, self.chances.delay_turns_max)
                self.network[place] = (max(due, soon), to, message)

    def recover(self, host: SimulatedHost) -> None:
        host.is_paused = False
        if not host.is_up:
            host.restart()
            host.node.set_contacts(self.hosts)
            host.is_up = True

    # At the end

    def all_have_everything(self) -> bool:
        leaders = self.leaders()
        if len(leaders) != 1:
            return False
        end = leaders[0].node._core.log.last_index
        return all(host.applied == end for host in self.hosts.values())

    def check_that_nothing_is_lost(self) -> None:
        lost = [index for index in self.acknowledged if index not in self.committed.chosen]
        if lost:
            raise ViolationError(f"acknowledged and lost: {lost}")


def is_vote(message: Message) -> bool:
    return isinstance(message, VoteReply) and message.granted and not message.pre_vote


def find_violation(simulation: Simulation, turns: int) -> str | None:
    """What went wrong, if anything did. A node that stops itself has found something wrong too."""
    try:
        simulation.run(turns)
    except (AssertionError, InvariantError) as problem:
        return f"{type(problem).__name__} in turn {simulation.turn}: {problem}"
    return None

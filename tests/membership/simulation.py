"""Clusters of the real `Membership` on a network and clocks that a seed decides about.

Every packet can be lost, delayed by a random time (so packets overtake each other), or arrive twice; links can be cut,
both ways or one way. Every node has a clock of its own, some time away from the others'. The history holds each event
with the time at which it happened and the node that told of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from ottla.config.membership import GossipConfig
from ottla.membership import Address, Change, Effects, Event, Member, MemberChanged, Membership, Status

CLUSTER = "L3ZJxIQfTMqY4IcWHzHPoA"
EPOCH_MS = 1_700_000_000_000
CLOCK_OFFSET_MS_MAX = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """What the network does to packets."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: tuple[int, int] = (0, 2)


CALM = Weather()
STORM = Weather(loss=0.2, duplication=0.05, delay_ms=(0, 40))


class Happened(NamedTuple):
    at_ms: int
    observer: int
    observer_run: int
    event: Event


class Host:
    """Where a node runs: the process may be gone, or stopped for a while."""

    def __init__(self, membership: Membership, clock_offset_ms: int) -> None:
        self.membership = membership
        self.clock_offset_ms = clock_offset_ms
        self.is_up = True
        self.stopped_until_ms = 0
        self.wake_ms: int | None = None


def address_of(node_id: int) -> Address:
    return Address(f"10.0.{node_id // 256}.{node_id % 256}", 7946)


class Simulation:
    def __init__(self, seed: int, weather: Weather = CALM, config: GossipConfig | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.weather = weather
        self.config = config or GossipConfig()
        self.now_ms = 0
        self.hosts: dict[int, Host] = {}
        self.history: list[Happened] = []
        self.crashed: dict[int, int] = {}
        """Node ids of those that crashed and were not started again, and when they did."""
        self.packets = 0
        self.bytes = 0
        self.largest_packet_bytes = 0
        self._cut: set[tuple[int, int]] = set()
        self._hosts_by_address: dict[Address, int] = {}
        self._queue: list[tuple[int, int, int, bytes | None, Address | None]] = []
        self._order = 0

    # Nodes

    def start(
        self,
        node_id: int,
        seeds: Iterable[int] = (),
        *,
        on: int | None = None,
        cluster_id: str = CLUSTER,
        clock_set_back_ms: int = 0,
    ) -> Membership:
        """Start a node, or start it again. It runs on the host of its own number if no other is named."""
        host = node_id if on is None else on
        place = address_of(host)
        offset_ms = self.random.randint(0, CLOCK_OFFSET_MS_MAX)
        membership = Membership(
            cluster_id=cluster_id,
            node_id=node_id,
            gossip=place,
            kafka=Address(place.host, 9092),
            rack=f"r{node_id % 3}",
            started_ms=EPOCH_MS + self.now_ms - clock_set_back_ms,
            config=self.config,
            random=random.Random(self.random.getrandbits(64)),
            now_ms=self.now_ms + offset_ms,
        )
        self._hosts_by_address[place] = host
        self.crashed.pop(node_id, None)
        self.hosts[host] = Host(membership, offset_ms)
        self._carry_out(host, membership.join([address_of(seed) for seed in seeds], self._clock(host)))
        return membership

    def crash(self, host: int) -> None:
        self.hosts[host].is_up = False
        self.crashed[self[host].me.node_id] = self.now_ms

    def stop(self, host: int, for_ms: int) -> None:
        """SIGSTOP: what arrives meanwhile waits in the socket."""
        self.hosts[host].stopped_until_ms = self.now_ms + for_ms

    def leave(self, host: int) -> None:
        """Say goodbye, and end once that is said."""
        self._carry_out(host, self[host].leave(self._clock(host)))

    def found(self, host: int) -> None:
        """A node without a cluster is given one."""
        self._carry_out(host, self[host].adopt_cluster(CLUSTER, self._clock(host)))

    def __getitem__(self, host: int) -> Membership:
        return self.hosts[host].membership

    @property
    def up(self) -> list[int]:
        """The hosts whose node runs and has not left."""
        return [name for name, host in self.hosts.items() if host.is_up and host.membership.me.status != Status.LEFT]

    # The network

    def cut(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        """One way: packets of `sources` do not reach `targets`."""
        self._cut |= {(source, target) for source in sources for target in targets}

    def split(self, *sides: Sequence[int]) -> None:
        for side in sides:
            for other in sides:
                if side is not other:
                    self.cut(side, other)

    def heal(self) -> None:
        self._cut.clear()

    # Time

    def run(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self._queue and self._queue[0][0] <= until_ms:
            self._step()
        self.now_ms = until_ms

    def run_until_converged(self, limit_ms: int, step_ms: int = 100) -> int | None:
        """How long it took until everybody who is up believed the truth of everybody; None: longer than the limit."""
        begin_ms = self.now_ms
        while self.now_ms - begin_ms < limit_ms:
            self.run(step_ms)
            if self.is_converged():
                return self.now_ms - begin_ms
        return None

    def is_converged(self) -> bool:
        up = self.up
        there = {self[host].me.node_id for host in up}
        return all(live_ids(self[host].members()) == there for host in up)

    def _step(self) -> None:
        at_ms, _, target, packet, sender = heappop(self._queue)
        self.now_ms = at_ms
        host = self.hosts[target]
        if not host.is_up:
            return
        if at_ms < host.stopped_until_ms:
            self._push(host.stopped_until_ms, target, packet, sender)
            host.wake_ms = host.stopped_until_ms
        elif packet is not None and sender is not None:
            self._carry_out(target, host.membership.receive(packet, sender, self._clock(target)))
        elif host.wake_ms == at_ms:
            self._carry_out(target, host.membership.tick(self._clock(target)))

    def _clock(self, host: int) -> int:
        return self.now_ms + self.hosts[host].clock_offset_ms

    def _push(self, at_ms: int, target: int, packet: bytes | None = None, sender: Address | None = None) -> None:
        self._order += 1
        heappush(self._queue, (at_ms, self._order, target, packet, sender))

    def _carry_out(self, name: int, effects: Effects) -> None:
        host = self.hosts[name]
        self.history += [Happened(self.now_ms, name, host.membership.me.run_id, event) for event in effects.events]
        for to, packet in effects.packets:
            self._send(name, to, packet)
        deadline_ms = host.membership.next_deadline_ms()
        if deadline_ms is not None:
            wake_ms = max(self.now_ms, deadline_ms - host.clock_offset_ms)
            if wake_ms != host.wake_ms or wake_ms == self.now_ms:
                host.wake_ms = wake_ms
                self._push(wake_ms, name)

    def _send(self, source: int, to: Address, packet: bytes) -> None:
        self.packets += 1
        self.bytes += len(packet)
        self.largest_packet_bytes = max(self.largest_packet_bytes, len(packet))
        target = self._hosts_by_address.get(to)
        if target is None or (source, target) in self._cut:
            return
        copies = 2 if self.random.random() < self.weather.duplication else 1
        for _ in range(copies):
            if self.random.random() >= self.weather.loss:
                delay_ms = self.random.randint(*self.weather.delay_ms)
                self._push(self.now_ms + delay_ms, target, packet, self[source].me.gossip)

    # The history

    def times(self, change: Change, about: int) -> dict[int, int]:
        """When each observer first told of it."""
        times: dict[int, int] = {}
        for happened in self.history:
            event = happened.event
            if isinstance(event, MemberChanged) and (event.change, event.member.node_id) == (change, about):
                times.setdefault(happened.observer, happened.at_ms)
        return times


def live_ids(members: Sequence[Member]) -> set[int]:
    return {member.node_id for member in members if member.status in (Status.ALIVE, Status.SUSPECT)}


def formed(seed: int, size: int, weather: Weather = CALM, config: GossipConfig | None = None) -> Simulation:
    """A cluster whose nodes all know each other, in fair weather until then."""
    simulation = Simulation(seed, CALM, config)
    for node_id in range(size):
        simulation.start(node_id, [0] if node_id else [])
    took_ms = simulation.run_until_converged(60_000)
    assert took_ms is not None, simulation.seed
    simulation.weather = weather
    simulation.history.clear()
    return simulation


def suspicious_sleeper(seed: int) -> Simulation:
    """A node suspects another that stands still, then stands still itself. When it goes on, the other is well again,
    and the time in which it would have been declared failed has passed."""
    simulation = formed(seed, 5)
    simulation.stop(3, 2_500)
    while 2 not in simulation.times(Change.SUSPECTED, 3):
        simulation.run(10)
    simulation.stop(2, 20_000)
    simulation.run(25_000)
    return simulation

"""Founders of the real `Founding` core on hosts that crash and lose their disks, and a network that does as it likes.

Packets get lost, arrive twice, and are late by up to seconds, so that they reach a process long after the one that they
were meant for is gone. A process can die between its decision and the write of it. Whether a cluster has a leader is
what the simulation itself sees: a majority of its founders run, with the directories that it was founded with.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from ottla.membership.founding import Formed, Founding, Refused
from ottla.membership.founding_wire import Founder

DIRECTORY_ID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    loss: float = 0.2
    duplication: float = 0.2
    late: float = 0.05
    """How likely a packet is late by up to `late_ms`."""
    late_ms: int = 4_000
    delay_ms: int = 40


FAIR = Weather(loss=0.0, duplication=0.0, late=0.0, delay_ms=2)


@dataclass(slots=True)
class Disk:
    directory_id: bytes
    formed: Formed | None = None


class Host:
    def __init__(self, node_id: int, name: str) -> None:
        self.node_id = node_id
        self.name = name
        self.disk: Disk | None = None
        self.shelf: list[Disk] = []
        """Disks that were taken out before there was a cluster on them."""
        self.process: Founding | None = None
        self.refused: str | None = None

    @property
    def me(self) -> Founder | None:
        return None if self.disk is None else Founder(self.node_id, self.disk.directory_id)

    @property
    def cluster_id(self) -> str:
        formed = None if self.disk is None else self.disk.formed
        return "" if formed is None else formed.cluster_id


class TwoClustersError(AssertionError):
    """What must never happen."""


class FoundingSimulation:
    def __init__(
        self,
        seed: int,
        *,
        founders: int = 3,
        joiners: int = 0,
        weather: Weather | None = None,
        core: type[Founding] = Founding,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.weather = weather or Weather()
        self.core = core
        self.now_ms = 0
        self.hosts = {f"h{n}:7946": Host(n, f"h{n}:7946") for n in range(1, founders + joiners + 1)}
        self.founders = list(self.hosts.values())[:founders]
        self.seeds = [host.name for host in self.founders]
        self.crash_before_write = 0.0
        """How likely a process dies between its decision and the write of it."""
        self.story: list[str] = []
        self._queue: list[tuple[int, int, str, bytes | None, str]] = []
        self._order = 0

    # What happens to hosts

    def start(self, host: Host) -> None:
        if host.process is not None:
            return
        if host.disk is None:
            host.disk = Disk(self.random.randbytes(DIRECTORY_ID_BYTES))
        me = host.me
        assert me is not None
        self._note(f"{host.name} starts with {host.disk.directory_id.hex()[:4]} in {host.cluster_id[:4] or 'nothing'}")
        host.process = self.core(
            me=me,
            seeds=self.seeds,
            own_seeds=[host.name] if self.random.random() < 0.5 else [],
            formed=host.disk.formed,
            random=random.Random(self.random.getrandbits(64)),
            now_ms=self.now_ms,
        )
        self._push(self.now_ms, host.name)

    def crash(self, host: Host) -> None:
        if host.process is not None:
            self._note(f"{host.name} crashes")
            host.process = None

    def wipe(self, host: Host) -> None:
        self.crash(host)
        if host.disk is not None:
            self._note(f"{host.name} loses its disk")
            host.disk = None

    def swap(self, host: Host) -> None:
        """Another disk is put in: an empty one, or one that was in there before. One with a cluster on it stays: to
        put that back later would be to bring a second cluster from elsewhere."""
        self.crash(host)
        if host.disk is not None and host.disk.formed is None:
            host.shelf.append(host.disk)
            self.random.shuffle(host.shelf)
            host.disk = host.shelf.pop() if self.random.random() < 0.7 else None
            self._note(f"{host.name} gets another disk")

    # Time

    def run(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self._queue and self._queue[0][0] <= until_ms:
            self._step()
        self.now_ms = until_ms

    def run_until_one_cluster(self, limit_ms: int = 60_000) -> bool:
        """Everybody is up and nothing goes wrong any more: whether all are in one cluster in the end."""
        self.weather = FAIR
        self.crash_before_write = 0.0
        for host in self.hosts.values():
            self.start(host)
        end_ms = self.now_ms + limit_ms
        while self.now_ms < end_ms and not self.is_one_cluster():
            self.run(50)
        return self.is_one_cluster()

    def is_one_cluster(self) -> bool:
        return len({host.cluster_id for host in self.hosts.values()}) == 1 and "" not in self.clusters(with_none=True)

    def clusters(self, *, with_none: bool = False) -> set[str]:
        """Of all disks."""
        return {host.cluster_id for host in self.hosts.values() if with_none or host.cluster_id}

    def has_lost_its_majority(self) -> bool:
        """There is a cluster on some disk, most of whose founders lost theirs."""
        formed = [host.disk.formed for host in self.hosts.values() if host.disk is not None and host.disk.formed]
        return any(len(self._directories_left(known)) * 2 <= len(known.voters) for known in formed)

    def _directories_left(self, formed: Formed) -> list[Host]:
        return [host for host in self.founders if host.me in formed.voters]

    def has_leader(self, formed: Formed) -> bool:
        up = [
            host
            for host in self._directories_left(formed)
            if host.process is not None and host.cluster_id == formed.cluster_id
        ]
        return len(up) * 2 > len(formed.voters)

    def _step(self) -> None:
        self.now_ms, _, target, packet, sender = heappop(self._queue)
        host = self.hosts[target]
        if host.process is None:
            return
        self._tell_whether_there_is_a_leader(host, host.process)
        if packet is not None:
            answer = host.process.receive(packet, self.now_ms).answer
            if answer is not None:
                self._send(host, sender, answer)
        for seed, question in host.process.tick(self.now_ms):
            self._send(host, seed, question)
        self._write(host, host.process)
        if host.process is not None and (due_ms := host.process.next_deadline_ms()) is not None:
            self._push(max(due_ms, self.now_ms + 1), target)

    def _tell_whether_there_is_a_leader(self, host: Host, process: Founding) -> None:
        if host.disk is not None and host.disk.formed is not None:
            process.is_established = process.is_established or self.has_leader(host.disk.formed)

    def _write(self, host: Host, process: Founding) -> None:
        outcome = process.outcome
        assert host.disk is not None
        if isinstance(outcome, Refused):
            host.refused = outcome.sentence
            self.crash(host)
        elif outcome is not None and host.disk.formed is None:
            if self.random.random() < self.crash_before_write:
                self.crash(host)
                return
            host.disk.formed = outcome
            self._note(f"{host.name} is in {outcome.cluster_id[:4]}, {'a' if outcome.is_founder else 'no'} founder")
            process.settled()
            self._check()
        elif outcome is not None:
            process.settled()

    def _check(self) -> None:
        if len(self.clusters()) > 1:
            raise TwoClustersError(f"seed {self.seed}:\n" + "\n".join(self.story))

    # The network

    def _send(self, source: Host, target: str, packet: bytes) -> None:
        copies = 2 if self.random.random() < self.weather.duplication else 1
        for _ in range(copies):
            if target in self.hosts and self.random.random() >= self.weather.loss:
                delay_ms = self.random.randint(0, self.weather.delay_ms)
                if self.random.random() < self.weather.late:
                    delay_ms = self.random.randint(0, self.weather.late_ms)
                self._push(self.now_ms + delay_ms, target, packet, source.name)

    def _push(self, at_ms: int, target: str, packet: bytes | None = None, sender: str = "") -> None:
        self._order += 1
        heappush(self._queue, (at_ms, self._order, target, packet, sender))

    def _note(self, what: str) -> None:
        self.story.append(f"{self.now_ms:6d}  {what}")


def trouble(
    simulation: FoundingSimulation, *, steps: int, wipes: float, pauses_ms: Sequence[int] = (1, 5, 20, 50, 150, 600)
) -> None:
    """Hosts start, crash, lose their disks and get others, in any order."""
    hosts = list(simulation.hosts.values())
    for _ in range(steps):
        host = simulation.random.choice(hosts)
        dice = simulation.random.random()
        if dice < wipes / 2:
            simulation.wipe(host)
        elif dice < wipes:
            simulation.swap(host)
        elif dice < wipes + 0.1:
            simulation.crash(host)
        if dice < wipes / 2 or dice >= wipes * 0.75:
            simulation.start(host)
        simulation.run(simulation.random.choice(pauses_ms))

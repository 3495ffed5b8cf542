"""Whole clusters of the production node in virtual time, under faults, with clients that remember what they saw.

    with SimulatedCluster(nodes=1, seed=7, faults=Faults.all()) as cluster:
        history = cluster.run(Workload.produce_and_consume(producers=2, partitions=3), virtual_seconds=30)
    assert check(history) == []

`simulate` does all of that and raises an error that names the seed and shows what happened last.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.config import BrokerConfig, GroupConfig, JournalConfig, LogConfig, StorageConfig
from ottla.testing.checkers import Checker, Violation, check
from ottla.testing.history import History
from ottla.testing.sim_admin import create_topic, read_everything
from ottla.testing.sim_client import SimClient
from ottla.testing.sim_faults import FaultInjector, Faults
from ottla.testing.sim_machine import Machine
from ottla.testing.sim_member import GroupMember
from ottla.testing.sim_network import Network
from ottla.testing.sim_node import SimulatedNode
from ottla.testing.sim_producer import PartitionProducer
from ottla.testing.sim_reader import SimReader
from ottla.testing.sim_world import World
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from random import Random
    from types import TracebackType

__all__ = ["TOPIC", "Faults", "SimulatedCluster", "SimulationFailedError", "Workload", "check", "simulate"]

PORT = 9092
TOPIC = "orders"
GROUP = "billing"
REPLICAS_MAX = 3
SETTLE_S = 180.0
"""Virtual time in which everything must be answered once the faults are over."""
TRACE_LINES_SHOWN = 60
ALWAYS_INLINE_US = 1 << 40
"""A bound that no commit exceeds: the loop does them all. How long a commit really takes must decide nothing here."""
ALWAYS_IN_THREAD_US = 0


Job = Callable[[], Awaitable[None]]
Jobs = Callable[[SimClient], list[Job]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Who does what on one topic."""

    partitions: int = 2
    producers: int = 2
    consumers: int = 1
    members: int = 2
    """Of one consumer group."""

    @classmethod
    def produce_and_consume(cls, *, producers: int = 2, partitions: int = 2) -> Workload:
        return cls(producers=producers, partitions=partitions, consumers=1, members=0)


class SimulationFailedError(AssertionError):
    """A run that broke a rule: which seed, which rules, and what happened last."""

    def __init__(self, seed: int, violations: list[Violation], tail: str) -> None:
        rules = "\n".join(f"  {violation}" for violation in violations[:10])
        super().__init__(f"seed {seed} breaks {len(violations)} rules:\n{rules}\nwhat happened last:\n{tail}")
        self.seed = seed
        self.violations = violations


class SimulatedCluster:
    def __init__(self, *, nodes: int = 1, seed: int, faults: Faults | None = None) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.history = History()
        self._faults = faults or Faults.none()
        self.nodes = [self._node(number) for number in range(1, nodes + 1)]
        self.clients: list[SimClient] = []
        self._jobs: dict[str, Jobs] = {}
        """What the clients that live are there for."""

    def __enter__(self) -> SimulatedCluster:
        self._log_level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # what nodes say of faults they were meant to have
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.disable(self._log_level)
        for client in self.clients:
            client.kill()
        for node in self.nodes:
            if node.machine.loop is not None:
                node.machine.loop.kill()
        self.world.run_for(0)

    # Building.

    def _node(self, number: int) -> SimulatedNode:
        dice = self.world.dice(f"config {number}")
        machine = Machine(self.world, self.network, f"node-{number}", skew_ms=dice.randint(-500, 500))
        return SimulatedNode(machine, _draw_config(number, machine.name, dice))

    def client(self, name: str) -> SimClient:
        client = SimClient(
            self.world,
            self.network,
            name,
            bootstrap=[node.address for node in self.nodes],
            history=self.history,
        )
        self.clients.append(client)
        return client

    # Running.

    def run(self, workload: Workload, *, virtual_seconds: float) -> History:
        """Faults for so long, then peace until all is answered, then a last look at everything."""
        self._start(workload)
        injector = FaultInjector(
            self.world,
            self.network,
            self._faults,
            nodes=self.nodes,
            clients=lambda: list(self._jobs),
            replace_client=self._replace,
        )
        injector.start()
        self.world.run_for(virtual_seconds)
        injector.stop()
        self._let_finish(self.clients, "the clients")
        self._look(workload)
        return self.history

    def _start(self, workload: Workload) -> None:
        for node in self.nodes:
            node.start()
        self._until(lambda: all(node.is_serving for node in self.nodes), "the nodes' start")
        admin = self.client("admin")
        admin.start(lambda: create_topic(admin, TOPIC, workload.partitions, min(REPLICAS_MAX, len(self.nodes))))
        admin.stop()
        self._until(lambda: admin.is_done, "creating the topic")
        self._start_clients(workload)

    def _start_clients(self, workload: Workload) -> None:
        partitions = [TopicPartition(TOPIC, index) for index in range(workload.partitions)]

        def produce(client: SimClient) -> list[Job]:
            return [PartitionProducer(client, partition).run for partition in partitions]

        def consume(client: SimClient) -> list[Job]:
            return [SimReader(client, client.name, dict.fromkeys(partitions, 0)).run]

        def take_part(client: SimClient) -> list[Job]:
            return [GroupMember(client, GROUP, TOPIC, workload.partitions).run]

        for number in range(workload.producers):
            self._employ(f"producer-{number}", produce)
        for number in range(workload.consumers):
            self._employ(f"consumer-{number}", consume)
        for number in range(workload.members):
            self._employ(f"member-{number}", take_part)

    def _employ(self, name: str, jobs: Jobs) -> None:
        self._jobs[name] = jobs
        client = self.client(name)
        client.start(*jobs(client))

    def _replace(self, name: str) -> None:
        """The client's process dies, and one like it starts on another machine."""
        for client in self.clients:
            if client.name == name:
                client.kill()
        self._employ(f"{name}+", self._jobs.pop(name))

    def _let_finish(self, clients: list[SimClient], who: str) -> None:
        for client in clients:
            client.stop()
        self._until(lambda: all(client.is_done for client in clients), who)

    def _look(self, workload: Workload) -> None:
        """Read everything from the beginning, with a client that knows nothing."""
        partitions = [TopicPartition(TOPIC, index) for index in range(workload.partitions)]
        groups = [GROUP] if workload.members else []
        auditor = self.client("auditor")
        auditor.start(lambda: read_everything(auditor, partitions, groups))
        self._until(lambda: auditor.is_done, "reading everything")

    def _until(self, done: Callable[[], bool], what: str) -> None:
        if not self.world.run_until(done, deadline=self.world.now + SETTLE_S):
            raise self.failure([Violation("Liveness", f"{what} did not end within {SETTLE_S:.0f} s without faults")])

    def failure(self, violations: list[Violation]) -> SimulationFailedError:
        tail = self.world.trace.tail(TRACE_LINES_SHOWN)
        return SimulationFailedError(self.world.seed, violations, tail)


def simulate(
    seed: int,
    workload: Workload | None = None,
    *checkers: type[Checker],
    nodes: int = 1,
    faults: Faults | None = None,
    virtual_seconds: float = 20.0,
) -> SimulatedCluster:
    """Run one seed and check it; raises SimulationFailedError."""
    with SimulatedCluster(nodes=nodes, seed=seed, faults=faults or Faults.all()) as cluster:
        history = cluster.run(workload or Workload(), virtual_seconds=virtual_seconds)
    violations = [Violation("Unhandled", failure) for failure in cluster.world.failures]
    violations += check(history, *checkers)
    if violations:
        raise cluster.failure(violations)
    return cluster


def _draw_config(number: int, host: str, dice: Random) -> BrokerConfig:
    """Small sizes and short intervals, so that a short run rolls segments, reuses journal files and checkpoints."""
    return BrokerConfig(
        node_id=number,
        address=host,
        port=PORT,
        journal=JournalConfig(
            file_size_bytes=dice.choice((64, 256)) * 1024,
            inline_sync_p90_us_max=dice.choice((ALWAYS_INLINE_US, ALWAYS_IN_THREAD_US, ALWAYS_IN_THREAD_US)),
        ),
        storage=StorageConfig(
            recovery_checkpoint_interval_ms=dice.choice((100, 1_000, 60_000)),
            retention_check_interval_ms=dice.choice((1_000, 300_000)),
        ),
        log=LogConfig(
            segment_bytes=dice.choice((2_000, 20_000, 1 << 30)), index_interval_bytes=dice.choice((0, 200, 4096))
        ),
        groups=GroupConfig(offsets_topic_num_partitions=3, group_initial_rebalance_delay_ms=dice.choice((0, 250))),
    )

"""A cluster of production nodes on simulated machines, its clients, and a run from the first start to the last look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.testing import sim_audit
from ottla.testing.checkers import Violation
from ottla.testing.history import History
from ottla.testing.sim_admin import create_topic, read_everything, wait_until_in_sync
from ottla.testing.sim_client import SimClient
from ottla.testing.sim_config import ClusterSettings, node_config
from ottla.testing.sim_copies import Copier, note_positions
from ottla.testing.sim_faults import FaultInjector
from ottla.testing.sim_log import LogIntoTrace
from ottla.testing.sim_machine import Machine
from ottla.testing.sim_member import GroupMember
from ottla.testing.sim_network import Network
from ottla.testing.sim_node import SimulatedNode
from ottla.testing.sim_plan import Faults, Plan, draw
from ottla.testing.sim_producer import PartitionProducer
from ottla.testing.sim_reader import SimReader
from ottla.testing.sim_transactions import CommittedReader, TransactionalProducer
from ottla.testing.sim_watch import RaftWatch
from ottla.testing.sim_world import World
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.config import BrokerConfig

TOPIC = "orders"
GROUP = "billing"
LEDGER = "ledger"
COPIES = "copies"
COPIERS = "copiers"
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
REPLICAS_MAX = 3
STARTS_WITHIN_S = 3.0
"""The nodes of a cluster are started within this time, in any order."""
SETTLE_S = 180.0
"""Virtual time in which everything must be answered once the faults are over."""
QUIET_S = 3.0
"""So long nothing moves before the disks are compared."""
TRACE_LINES_SHOWN = 60


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
    transactional: int = 0
    """Producers of transactions on a topic of their own; every third has the id of another."""
    copiers: int = 0
    """They copy what these have committed into another topic; those beyond the number of partitions are zombies, or
    make zombies of others."""

    @classmethod
    def produce_and_consume(cls, *, producers: int = 2, partitions: int = 2) -> Workload:
        return cls(producers=producers, partitions=partitions, consumers=1, members=0)


class SimulationFailedError(AssertionError):
    """A run that broke a rule: which seed, which rules, what was done to it, and what happened last."""

    def __init__(self, seed: int, violations: list[Violation], plan: Plan, tail: str) -> None:
        rules = "\n".join(f"  {violation}" for violation in violations[:10])
        faults = "\n".join(f"  {strike}" for strike in plan)
        super().__init__(
            f"seed {seed} breaks {len(violations)} rules:\n{rules}\nfaults:\n{faults}\nwhat happened last:\n{tail}"
        )
        self.seed = seed
        self.violations = violations
        self.plan = plan


class SimulatedCluster:
    def __init__(
        self,
        *,
        nodes: int = 1,
        seed: int,
        faults: Faults | None = None,
        plan: Plan | None = None,
        adjust: Callable[[BrokerConfig], BrokerConfig] | None = None,
    ) -> None:
        """`plan` takes the place of the faults that the seed would draw; `adjust` changes settings that it drew."""
        self.world = World(seed)
        self.network = Network(self.world)
        self.history = History()
        self.plan: Plan = plan or ()
        self._given_plan = plan
        self._faults = faults or Faults.none()
        self._adjust = adjust
        self._shared = self._shared_settings(nodes) if nodes > 1 else None
        self.nodes = [self._node(number) for number in range(1, nodes + 1)]
        self.clients: list[SimClient] = []
        self._jobs: dict[str, Jobs] = {}
        """What the clients that live are there for."""

    def __enter__(self) -> SimulatedCluster:
        self._watched = ExitStack()
        self._watched.enter_context(LogIntoTrace(self.world))
        self._watched.enter_context(RaftWatch(self.world, self.history))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for client in self.clients:
            client.kill()
        for node in self.nodes:
            if node.machine.loop is not None:
                node.machine.loop.kill()
        self.world.run_for(0)
        self._watched.close()

    # Building.

    @property
    def replicas(self) -> int:
        return min(REPLICAS_MAX, len(self.nodes))

    def _shared_settings(self, nodes: int) -> ClusterSettings:
        names = [_name(number) for number in range(1, nodes + 1)]
        return ClusterSettings(names, self.world.dice("config"), replicas=min(REPLICAS_MAX, nodes))

    def _node(self, number: int) -> SimulatedNode:
        dice = self.world.dice(f"config {number}")
        machine = Machine(self.world, self.network, _name(number), skew_ms=dice.randint(-500, 500))
        config = node_config(number, machine.name, dice, self._shared)
        return SimulatedNode(machine, self._adjust(config) if self._adjust else config, self.history)

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
        self.start(workload)
        self._draw_plan(virtual_seconds)
        injector = FaultInjector(
            self.world,
            self.network,
            self.plan,
            nodes=self.nodes,
            clients=lambda: list(self._jobs),
            replace_client=self._replace,
            crash_while_starting=self._faults.crash_while_starting,
        )
        injector.start()
        self.world.run_for(virtual_seconds)
        injector.stop()
        self.world.note("-", "THE FAULTS ARE OVER")
        self._let_finish(self.clients, "the clients")
        self._look(workload)
        return self.history

    def _draw_plan(self, seconds: float) -> None:
        if self._given_plan is None:
            dice = self.world.dice("faults")
            self.plan = draw(dice, self._faults, nodes=len(self.nodes), seconds=seconds)

    def start(self, workload: Workload) -> None:
        """Nodes, then the topic, then its clients."""
        self.start_nodes()
        admin = self.client("admin")
        admin.start(*(_creating(admin, topic, workload, self.replicas) for topic in _topics(workload)))
        admin.stop()
        self.until(lambda: admin.is_done, "creating the topic")
        self._start_clients(workload)

    def start_nodes(self, *, within_s: float = SETTLE_S) -> None:
        dice = self.world.dice("starts")
        for node in self.nodes:
            self.world.after(dice.uniform(0, STARTS_WITHIN_S) if self._shared else 0.0, node.start)
        self.until(lambda: all(node.is_serving for node in self.nodes), "the nodes' start", within_s)

    def _start_clients(self, workload: Workload) -> None:
        partitions = _partitions(workload)

        def produce(client: SimClient) -> list[Job]:
            return [PartitionProducer(client, partition).run for partition in partitions]

        def consume(client: SimClient) -> list[Job]:
            return [SimReader(client, client.name, dict.fromkeys(partitions, 0)).run]

        def take_part(client: SimClient) -> list[Job]:
            return [GroupMember(client, GROUP, TOPIC, workload.partitions).run]

        def transact(transactional_id: str) -> Jobs:
            return lambda client: [TransactionalProducer(client, transactional_id, _ledger(workload)).run]

        def read_ledger(client: SimClient) -> list[Job]:
            return [CommittedReader(client, _ledger(workload)).run]

        def copy(source: TopicPartition) -> Jobs:
            return lambda client: [Copier(client, source, _places(COPIES, workload), group=COPIERS).run]

        for number in range(workload.copiers):
            self._employ(f"copier-{number}", copy(_ledger(workload)[number % workload.partitions]))
        for number in range(workload.transactional):
            self._employ(f"transactor-{number}", transact(f"id-{number % 2}"))
        if workload.transactional:
            self._employ("bookkeeper", read_ledger)
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
        self.until(lambda: all(client.is_done for client in clients), who)

    def _look(self, workload: Workload) -> None:
        """Wait until all replicas are in sync, then read everything, with a client that knows nothing."""
        self.until(lambda: all(node.is_serving or node.stays_down for node in self.nodes), "the nodes' last start")
        topics = [*_topics(workload), OFFSETS_TOPIC, TRANSACTIONS_TOPIC]
        self.wait_until_in_sync(topics)
        groups = [GROUP] if workload.members else []
        auditor = self.client("auditor")
        auditor.start(lambda: read_everything(auditor, _partitions(workload), groups))
        if workload.transactional:
            auditor.start(CommittedReader(auditor, _ledger(workload), is_final=True).run_to_the_end)
        if workload.copiers:
            auditor.start(CommittedReader(auditor, _places(COPIES, workload), is_final=True).run_to_the_end)
            auditor.start(lambda: note_positions(auditor, COPIERS, _ledger(workload)))
        self.until(lambda: auditor.is_done, "reading everything")
        self.history.replicas = sim_audit.replicas(self.nodes, self._steady_placement(topics))

    def _steady_placement(self, topics: Sequence[str]) -> sim_audit.Placement:
        """Where the replicas are once nothing moves any more."""
        before, placement = None, self.wait_until_in_sync(topics)
        deadline = self.world.now + SETTLE_S
        while placement != before and self.world.now < deadline:
            self.world.run_for(QUIET_S)
            before, placement = placement, self.wait_until_in_sync(topics)
        return placement

    def wait_until_in_sync(self, topics: Sequence[str]) -> sim_audit.Placement:
        found: dict[TopicPartition, Sequence[int]] = {}
        inspector = self.client("inspector")
        brokers = [node.address for node in self.nodes if not node.stays_down]

        async def look() -> None:
            found.update(await wait_until_in_sync(inspector, brokers, topics))

        inspector.start(look)
        self.until(lambda: inspector.is_done, "bringing all replicas in sync")
        return found

    def until(self, done: Callable[[], bool], what: str, within_s: float = SETTLE_S) -> None:
        if not self.world.run_until(done, deadline=self.world.now + within_s):
            raise self.failure([Violation("Liveness", f"{what} did not end within {within_s:.0f} s without faults")])

    def failure(self, violations: list[Violation]) -> SimulationFailedError:
        return SimulationFailedError(self.world.seed, violations, self.plan, self.world.trace.tail(TRACE_LINES_SHOWN))


def _name(number: int) -> str:
    return f"node-{number}"


def _topics(workload: Workload) -> list[str]:
    return [TOPIC, *([LEDGER] if workload.transactional else []), *([COPIES] if workload.copiers else [])]


def _creating(admin: SimClient, topic: str, workload: Workload, replicas: int) -> Job:
    return lambda: create_topic(admin, topic, workload.partitions, replicas)


def _ledger(workload: Workload) -> list[TopicPartition]:
    return _places(LEDGER, workload)


def _partitions(workload: Workload) -> list[TopicPartition]:
    return _places(TOPIC, workload)


def _places(topic: str, workload: Workload) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(workload.partitions)]

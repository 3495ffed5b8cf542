"""Figures for the balancer: what the controller is told of brokers and partitions."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.config import ClusterConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.membership import Load
from ottla.metadata.balancer_leaders import Loads, PartitionLoad
from ottla.metadata.image import MetadataImage
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.replicated import Token
from ottla.runtime.load_figures import Growth, LoadFigures
from ottla.services import Deferred
from tests.metadata.balancing import a_cluster, topic_id_of, with_topic

T = topic_id_of("t")
KEY = (T, 0)


class TestGrowth:
    def test_a_size_alone_is_no_rate(self) -> None:
        growth = Growth()
        growth.note(KEY, 1_000, 0)
        assert growth.loads() == {KEY: PartitionLoad(0.0, 1_000)}

    def test_the_rate_follows_the_differences(self) -> None:
        growth = Growth()
        for second in range(12):
            growth.note(KEY, 1_000 * second, second * 1000)
        assert 999 < growth.loads()[KEY].bytes_per_s <= 1_000

    def test_a_log_that_shrinks_keeps_its_rate(self) -> None:
        growth = Growth()
        growth.note(KEY, 0, 0)
        growth.note(KEY, 2_000, 1_000)
        growth.note(KEY, 500, 2_000)
        assert growth.loads() == {KEY: PartitionLoad(1_000.0, 500)}

    def test_what_is_deleted_is_forgotten(self) -> None:
        growth = Growth()
        growth.note(KEY, 1, 0)
        growth.note((T, 7), 1, 0)
        growth.keep(with_topic(a_cluster(1), "t", (1,)))
        assert list(growth.loads()) == [KEY]


class Rig:
    """Two brokers that answer at once, and a controller that writes down what it is told."""

    def __init__(self, image: MetadataImage, sizes: dict[int, int]) -> None:
        self.image = image
        self.is_active = False
        self.sizes = sizes
        self.told: list[Loads] = []
        self.asked: list[tuple[str, int]] = []
        self.actions: list[Callable[[], None]] = []
        self.now_ms = 0
        self.listener: Callable[[bool], None] = lambda _active: None

    def start(self) -> None:
        members = [
            SimpleNamespace(node_id=1, load=Load(10), load_version=1, is_live=True),
            SimpleNamespace(node_id=2, load=Load(20), load_version=0, is_live=True),
            SimpleNamespace(node_id=3, load=Load(30), load_version=4, is_live=False),
        ]
        rig: Any = self
        gossip: Any = SimpleNamespace(members=lambda: members)
        LoadFigures(metadata=rig, gossip=gossip, client=rig, config=ClusterConfig(), clock=rig, timers=rig)

    # What it takes for metadata, client, clock and timers

    def on_active(self, listener: Callable[[bool], None]) -> None:
        self.listener = listener

    def call(self, decide: Callable[[Any, Token, int], Any]) -> None:
        if not self.is_active:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        decide(SimpleNamespace(carry=self.told.append), Token(), 0)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> Any:
        self.actions.append(action)
        return SimpleNamespace(cancel=lambda: self.actions.remove(action))

    def send(self, address: tuple[str, int], _request: object, **_options: object) -> Deferred[Any]:
        self.asked.append(address)
        answer: Deferred[Any] = Deferred()
        broker_id = int(address[0][1:])
        if broker_id not in self.sizes:
            answer.fail(BrokerError(ErrorCode.NETWORK_EXCEPTION))
            return answer
        partitions = [
            DescribeLogDirsPartition(partition_index=i, partition_size=self.sizes[broker_id]) for i in range(3)
        ]
        topics = [DescribeLogDirsTopic(name=name, partitions=partitions) for name in ("t", "deleted")]
        answer.complete(DescribeLogDirsResponse(results=[DescribeLogDirsResult(topics=topics)]))
        return answer

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        actions, self.actions = self.actions, []
        for action in actions:
            action()


def a_rig() -> Rig:
    return Rig(with_topic(a_cluster(2), "t", (1, 2), (2, 1)), {1: 500, 2: 700})


def test_the_controller_is_told_what_leaders_say_of_their_own_partitions() -> None:
    rig = a_rig()
    rig.is_active = True
    rig.start()
    rig.sizes = {1: 2_500, 2: 700}
    rig.pass_time(1_000)
    rig.pass_time(1_000)
    assert rig.told[-1].partitions == {(T, 0): PartitionLoad(1_000.0, 2_500), (T, 1): PartitionLoad(0.0, 700)}
    assert rig.told[-1].brokers == {1: Load(10)}


def test_a_broker_that_does_not_answer_is_left_out() -> None:
    rig = a_rig()
    rig.sizes = {2: 700}
    rig.is_active = True
    rig.start()
    rig.pass_time(1_000)
    assert set(rig.told[-1].partitions) == {(T, 1)}


def test_only_the_node_with_the_controller_asks() -> None:
    rig = a_rig()
    rig.start()
    assert rig.asked == []
    rig.is_active = True
    rig.listener(True)
    assert len(rig.asked) == 2
    rig.is_active = False
    rig.listener(False)
    rig.pass_time(60_000)
    assert len(rig.asked) == 2


def test_leadership_that_ends_at_this_moment_is_no_error() -> None:
    rig = a_rig()
    rig.is_active = True
    rig.start()
    rig.is_active = False
    told = len(rig.told)
    rig.pass_time(60_000)
    assert len(rig.told) == told


def test_a_cluster_of_one_asks_nobody() -> None:
    rig = Rig(with_topic(a_cluster(1), "t", (1,)), {1: 1})
    rig.is_active = True
    rig.start()
    rig.pass_time(60_000)
    assert rig.asked == []
    assert rig.told == []

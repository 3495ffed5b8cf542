from ottla.console.snapshot import BrokerNow, ClusterNow, PartitionNow, TopicNow, rates_between
from ottla.types import TopicPartition


def broker(broker_id: int, held: int | None, rack: str | None = None) -> BrokerNow:
    return BrokerNow(
        broker_id=broker_id,
        host="h",
        port=9092,
        rack=rack,
        state="in service",
        role="voter",
        held_bytes=held,
        usable_bytes=None,
        metadata_lag=0,
    )


def partition(index: int, leader: int | None, end: int | None) -> PartitionNow:
    return PartitionNow(
        topic="orders",
        index=index,
        leader=leader,
        replicas=(1, 2),
        in_sync=(1,),
        is_moving=False,
        start=0,
        end=end,
        sizes={1: 10, 2: 30},
    )


def cluster(at_ms: int, held: list[int | None], ends: list[int | None]) -> ClusterNow:
    partitions = tuple(partition(index, index + 1, end) for index, end in enumerate(ends))
    return ClusterNow(
        at_ms=at_ms,
        cluster_id="c",
        controller=1,
        quorum=None,
        brokers=tuple(broker(at + 1, each) for at, each in enumerate(held)),
        topics=(TopicNow(name="orders", is_internal=False, partitions=partitions),),
    )


def test_rates_are_what_was_written_between_two_looks() -> None:
    rates = rates_between(cluster(0, [100, 50], [10, 20]), cluster(2_000, [300, 40], [30, 20]))

    assert rates.by_partition == {TopicPartition("orders", 0): 10.0, TopicPartition("orders", 1): 0.0}
    assert rates.by_broker == {1: 10.0, 2: 0.0}
    assert rates.bytes_by_broker == {1: 100.0, 2: 0.0}
    assert rates.total == 10.0


def test_what_was_not_told_has_no_rate() -> None:
    rates = rates_between(cluster(0, [None, 50], [None, 20]), cluster(1_000, [300, 50], [30, 21]))

    assert rates.by_partition == {TopicPartition("orders", 1): 1.0}
    assert 1 not in rates.bytes_by_broker


def test_no_time_between_two_looks_is_no_rate() -> None:
    assert rates_between(cluster(5, [1], [1]), cluster(5, [2], [2])).total is None


def test_the_size_of_a_partition_is_that_of_its_leader() -> None:
    assert partition(0, 2, 5).size_bytes == 30
    assert partition(0, None, 5).size_bytes == 30
    assert partition(0, 1, 5).size_bytes == 10


def test_racks_hold_their_brokers() -> None:
    one = cluster(0, [], [])
    brokers = (broker(3, 1, "b"), broker(1, 1, "a"), broker(2, 1, "b"))
    racked = ClusterNow(at_ms=0, cluster_id="c", controller=None, quorum=None, brokers=brokers, topics=one.topics)

    assert {rack: [each.broker_id for each in some] for rack, some in racked.racks().items()} == {"a": [1], "b": [2, 3]}

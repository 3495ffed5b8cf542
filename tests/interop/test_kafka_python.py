"""kafka-python: a client written from the protocol alone, with other habits than librdkafka's."""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

from tests.interop.conftest import MakeTopic
from tests.interop.waiting import eventually

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _collect_what_the_client_left_open() -> Iterator[None]:
    """kafka-python leaves socket pairs to the garbage collector: let it find them here and not in some other test."""
    yield
    gc.collect()


@contextlib.contextmanager
def _producer(bootstrap: str, **settings: Any) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        yield producer
    finally:
        producer.close()


@contextlib.contextmanager
def _consumer(bootstrap: str, *topics: str, **settings: Any) -> Iterator[KafkaConsumer]:
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer(*topics, bootstrap_servers=bootstrap, **(defaults | settings))
    try:
        if "group_id" in settings:  # a member that assigns partitions before it knows any stays with none
            for topic in topics:
                eventually(lambda: consumer.partitions_for_topic(topic))  # noqa: B023 - asked within the turn
        yield consumer
    finally:
        consumer.close()


@contextlib.contextmanager
def _admin(bootstrap: str, **settings: Any) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, **settings)
    try:
        yield admin
    finally:
        admin.close()


def _read(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []

    def enough() -> bool:
        for polled in consumer.poll(timeout_ms=200).values():
            records.extend(polled)
        return len(records) >= count

    eventually(enough, what=f"{count} records")
    return records


@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd"])
def test_records_of_every_compression_come_back_in_order(bootstrap: str, topic: str, compression: str | None) -> None:
    with _producer(bootstrap, compression_type=compression, linger_ms=5) as producer:
        for number in range(500):
            producer.send(topic, value=b"%d" % number * 10, key=b"k", headers=[("n", b"%d" % number)])
        producer.flush(30)

    with _consumer(bootstrap, topic) as consumer:
        records = _read(consumer, 500)

    assert [record.offset for record in records] == list(range(500))
    assert [record.value for record in records] == [b"%d" % number * 10 for number in range(500)]
    assert records[7].headers == [("n", b"7")]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_works(bootstrap: str, topic: str, acks: int | str) -> None:
    with _producer(bootstrap, acks=acks, enable_idempotence=False) as producer:
        producer.send(topic, b"v").get(10)

    with _consumer(bootstrap, topic) as consumer:
        assert [record.value for record in _read(consumer, 1)] == [b"v"]


def test_null_keys_and_values_are_kept(bootstrap: str, topic: str) -> None:
    with _producer(bootstrap) as producer:
        producer.send(topic, key=b"k", value=None)
        producer.send(topic, key=None, value=b"v")

    with _consumer(bootstrap, topic) as consumer:
        assert [(record.key, record.value) for record in _read(consumer, 2)] == [(b"k", None), (None, b"v")]


RELEASES = [(0, 11), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 7), (2, 8)]
RELEASES += [(3, minor) for minor in range(10)] + [(4, 0)]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: ".".join(map(str, release)))
def test_a_client_that_speaks_as_to_an_older_broker_is_served(
    bootstrap: str, topic: str, unique: str, release: tuple[int, int]
) -> None:
    """The client picks the API versions of that release instead of the newest that both know."""
    with _producer(bootstrap, api_version=release, enable_idempotence=False) as producer:
        producer.send(topic, key=b"k", value=b"v", headers=[("h", b"1")]).get(10)

    with _consumer(bootstrap, topic, group_id=unique, api_version=release) as consumer:
        (record,) = _read(consumer, 1)
        assert (record.key, record.value, record.headers) == (b"k", b"v", [("h", b"1")])
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == 1


def test_the_release_is_guessed_from_what_the_broker_advertises(bootstrap: str) -> None:
    with _producer(bootstrap) as producer:
        assert producer.config["api_version"] >= (3, 9)


ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]


class _Member(threading.Thread):
    """A consumer that polls in a thread of its own until it is told to stop."""

    def __init__(self, topic: str, make: Callable[[], contextlib.AbstractContextManager[KafkaConsumer]]) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._make = make
        self._stopping = threading.Event()
        self.partitions: list[int] = []

    def run(self) -> None:
        with self._make() as consumer:
            # It joins knowing the partitions: one that assigned them before it knew any stayed with none.
            eventually(lambda: consumer.partitions_for_topic(self._topic))
            while not self._stopping.is_set():
                consumer.poll(timeout_ms=50)
                self.partitions = sorted(part.partition for part in consumer.assignment())
        self.partitions = []

    def stop(self) -> None:
        self._stopping.set()
        self.join(20)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.__name__)
def test_partitions_are_spread_anew_when_members_come_and_go(
    bootstrap: str, make_topic: MakeTopic, unique: str, assignor: type
) -> None:
    topic = make_topic(partitions=6)

    def member() -> _Member:
        settings = {
            "group_id": unique,
            "heartbeat_interval_ms": 100,
            "partition_assignment_strategy": [assignor],
            "metadata_max_age_ms": 500,
        }
        started = _Member(topic, lambda: _consumer(bootstrap, topic, **settings))
        started.start()
        return started

    def settled(members: list[_Member], sizes: list[int]) -> bool:
        held = [partition for one in members for partition in one.partitions]
        return sorted(held) == list(range(6)) and sorted(len(one.partitions) for one in members) == sizes

    members = [member()]
    try:
        eventually(lambda: settled(members, [6]))
        members.append(member())
        eventually(lambda: settled(members, [3, 3]))
        members.append(member())
        eventually(lambda: settled(members, [2, 2, 2]))
        members.pop(0).stop()
        eventually(lambda: settled(members, [3, 3]))
    finally:
        for one in members:
            one.stop()


def test_offsets_are_committed_with_metadata_and_found_again(bootstrap: str, topic: str, unique: str) -> None:
    with _producer(bootstrap) as producer:
        for _ in range(10):
            producer.send(topic, b"v")
    partition = TopicPartition(topic, 0)
    with _consumer(bootstrap, topic, group_id=unique) as consumer:
        _read(consumer, 10)
        consumer.commit({partition: OffsetAndMetadata(6, "note", -1)})

    with _consumer(bootstrap, topic, group_id=unique) as consumer:
        assert consumer.committed(partition, metadata=True).metadata == "note"
        assert _read(consumer, 4)[0].offset == 6


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    with _producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"v", timestamp_ms=1_600_000_000_000 + number).get(10)
    partition = TopicPartition(topic, 0)

    with _consumer(bootstrap) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        assert consumer.offsets_for_times({partition: 1_600_000_000_004})[partition].offset == 4
        assert consumer.offsets_for_times({partition: 1_700_000_000_000})[partition] is None


def test_topics_are_made_listed_described_grown_and_deleted(bootstrap: str, unique: str) -> None:
    with _admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=unique, num_partitions=2, replication_factor=1)])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(name=unique, num_partitions=2, replication_factor=1)])
        eventually(lambda: unique in admin.list_topics())
        assert len(admin.describe_topics([unique])[0]["partitions"]) == 2
        admin.create_partitions({unique: 5})
        eventually(lambda: len(admin.describe_topics([unique])[0]["partitions"]) == 5)
        admin.delete_topics([unique])
        eventually(lambda: unique not in admin.list_topics())


def test_configs_are_described_and_changed(bootstrap: str, topic: str) -> None:
    with _admin(bootstrap) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "4711"})])

        def retention() -> str:
            described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            return str(described)

        eventually(lambda: "4711" in retention())


def test_log_directories_and_producers_are_described(bootstrap: str, topic: str) -> None:
    with _producer(bootstrap, enable_idempotence=True) as producer:
        producer.send(topic, b"v" * 1000).get(10)
        with _admin(bootstrap) as admin:
            assert topic in str(admin.describe_log_dirs())
            assert "last_sequence" in str(admin.describe_producers([TopicPartition(topic, 0)]))

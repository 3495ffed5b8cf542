"""Administration, against a real node."""

import time

import pytest

from ottla.client.admin import Admin
from ottla.client.cluster import EARLIEST, LATEST, MAX_TIMESTAMP, ConfigSource, NewTopic, ResourceType
from ottla.client.errors import (
    BatchError,
    ClientError,
    GroupNotEmptyError,
    GroupNotFoundError,
    TimedOutError,
    TopicExistsError,
    TopicInvalidError,
    TopicNotFoundError,
    UnreachableError,
)
from ottla.client.settings import AdminConfig
from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic
from ottla.types import TopicPartition

three_partitions = pytest.mark.parametrize("ottla_topic", [3], indirect=True)


def fill(topic: OttlaTopic, count: int, partition: int = 0, timestamp_ms: int | None = None) -> None:
    producer = topic.producer()
    for number in range(count):
        producer.send(topic.name, f"{number}", partition=partition, timestamp_ms=timestamp_ms)
    producer.flush()


def test_a_cluster_is_described(ottla_node: OttlaNode) -> None:
    cluster = ottla_node.admin().describe_cluster()

    [broker] = cluster.brokers
    assert f"{broker.host}:{broker.port}" == ottla_node.bootstrap_servers
    assert cluster.controller == broker
    assert cluster.cluster_id


@three_partitions
def test_a_topic_is_made_listed_described_and_deleted(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()

    [summary] = [found for found in admin.list_topics() if found.name == ottla_topic.name]
    assert (summary.partitions, summary.replication_factor, summary.internal) == (3, 1, False)
    described = admin.describe_topic(ottla_topic.name)
    assert [info.partition for info in described.partitions] == [0, 1, 2]
    assert all(info.leader is not None and info.isr == info.replicas for info in described.partitions)
    assert len(described.topic_id) == 22

    admin.delete_topic(ottla_topic.name)
    assert ottla_topic.name not in [found.name for found in admin.list_topics()]


def test_a_topic_that_exists_is_not_made_again(ottla_topic: OttlaTopic) -> None:
    with pytest.raises(TopicExistsError):
        ottla_topic.admin().create_topic(ottla_topic.name)


def test_a_name_that_is_not_allowed_is_refused(ottla_node: OttlaNode) -> None:
    with pytest.raises(TopicInvalidError):
        ottla_node.admin().create_topic("not/allowed")


def test_validating_makes_nothing(ottla_node: OttlaNode) -> None:
    ottla_node.admin().create_topic("only-validated", validate_only=True)

    assert "only-validated" not in [found.name for found in ottla_node.admin().list_topics()]


@pytest.mark.parametrize("call", ["describe_topic", "delete_topic"])
def test_a_missing_topic_is_named(ottla_node: OttlaNode, call: str) -> None:
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        getattr(ottla_node.admin(), call)("nowhere")


def test_of_several_topics_those_that_fail_are_named_and_the_others_made(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    fresh = f"{ottla_topic}-fresh"

    with pytest.raises(BatchError) as caught:
        admin.create_topics([NewTopic(name=ottla_topic.name), NewTopic(name=fresh, partitions=2)])

    assert set(caught.value.errors) == {ottla_topic.name}
    assert len(admin.describe_topics([fresh])[fresh].partitions) == 2
    admin.delete_topics([fresh])


def test_partitions_are_added_but_not_taken_away(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()

    admin.create_partitions(ottla_topic.name, 4)

    assert len(admin.describe_topic(ottla_topic.name).partitions) == 4
    with pytest.raises(TopicInvalidError):
        admin.create_partitions(ottla_topic.name, 2)


def test_configs_are_read_set_and_put_back(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()

    default = admin.describe_config(ResourceType.TOPIC, ottla_topic.name)["retention.ms"]
    admin.alter_config(ResourceType.TOPIC, ottla_topic.name, {"retention.ms": "60000"})
    changed = admin.describe_config(ResourceType.TOPIC, ottla_topic.name)["retention.ms"]
    admin.alter_config(ResourceType.TOPIC, ottla_topic.name, {"retention.ms": None})
    back = admin.describe_config(ResourceType.TOPIC, ottla_topic.name)["retention.ms"]

    assert (changed.value, changed.source) == ("60000", ConfigSource.TOPIC)
    assert not changed.is_default
    assert back == default


def test_a_config_that_cannot_be_is_refused(ottla_topic: OttlaTopic) -> None:
    with pytest.raises(ClientError):
        ottla_topic.admin().alter_config(ResourceType.TOPIC, ottla_topic.name, {"retention.ms": "long"})


def test_a_broker_has_configs(ottla_node: OttlaNode) -> None:
    admin = ottla_node.admin()
    [broker] = admin.describe_cluster().brokers

    assert "log.retention.ms" in admin.describe_config(ResourceType.BROKER, str(broker.id))


def test_offsets_are_found_by_time_and_by_name(ottla_topic: OttlaTopic) -> None:
    admin, producer = ottla_topic.admin(), ottla_topic.producer()
    for timestamp_ms in (1_000_000, 3_000_000, 2_000_000):
        producer.send(ottla_topic.name, b"x", timestamp_ms=timestamp_ms).result(10)
    at = TopicPartition(ottla_topic.name, 0)

    assert admin.list_offsets({at: EARLIEST})[at].offset == 0
    assert admin.list_offsets({at: LATEST})[at].offset == 3
    assert admin.list_offsets({at: 1_500_000})[at].offset == 1
    assert admin.list_offsets({at: 9_000_000})[at].offset == -1
    assert admin.topic_offsets(ottla_topic.name, MAX_TIMESTAMP)[at].timestamp == 3_000_000
    assert admin.list_offsets({}) == {}


def test_records_are_deleted_from_the_front(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    fill(ottla_topic, 10)

    deleted = admin.delete_records({(ottla_topic.name, 0): 4})

    assert deleted == {TopicPartition(ottla_topic.name, 0): 4}
    assert admin.topic_offsets(ottla_topic.name, EARLIEST)[TopicPartition(ottla_topic.name, 0)].offset == 4
    assert ottla_topic.consumer().poll(10_000)[0].offset == 4


def test_a_group_is_listed_and_described_with_its_members(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    fill(ottla_topic, 1)
    consumer = ottla_topic.consumer(group_id="described", client_id="reader")
    assert consumer.poll(10_000)

    description = admin.describe_group("described")

    [member] = description.members
    assert description.state == "Stable"
    assert member.client_id == "reader"
    assert member.partitions == (TopicPartition(ottla_topic.name, 0),)
    assert ("described", "Stable") in [(group.group_id, group.state) for group in admin.list_groups()]


def test_a_group_with_members_can_be_neither_deleted_nor_moved(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    fill(ottla_topic, 1)
    consumer = ottla_topic.consumer(group_id="busy")
    assert consumer.poll(10_000)

    with pytest.raises(GroupNotEmptyError):
        admin.delete_group("busy")
    with pytest.raises(ClientError):
        admin.set_group_offsets("busy", {(ottla_topic.name, 0): 0})

    consumer.close()
    admin.delete_group("busy")
    with pytest.raises(GroupNotFoundError):
        admin.describe_group("busy")


def test_the_lag_of_a_group_is_told_in_records_and_in_seconds(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    fill(ottla_topic, 10, timestamp_ms=an_hour_ago)
    admin.set_group_offsets("slow", {(ottla_topic.name, 0): 4})

    [behind] = admin.group_lag("slow")
    admin.set_group_offsets("slow", {(ottla_topic.name, 0): 10})
    [caught_up] = admin.group_lag("slow")

    assert (behind.lag.position, behind.lag.end_offset, behind.lag.records) == (4, 10, 6)
    assert behind.lag.seconds == pytest.approx(3600, abs=60)
    assert behind.member is None
    assert (caught_up.lag.records, caught_up.lag.seconds) == (0, 0.0)


@three_partitions
def test_a_group_is_reset_to_a_time_to_an_offset_and_to_either_end(ottla_topic: OttlaTopic) -> None:
    admin = ottla_topic.admin()
    fill(ottla_topic, 5, partition=0, timestamp_ms=1_000_000)
    fill(ottla_topic, 2, partition=0, timestamp_ms=2_000_000)
    fill(ottla_topic, 1, partition=1, timestamp_ms=1_000_000)
    p0, p1, p2 = (TopicPartition(ottla_topic.name, partition) for partition in range(3))

    def reset(timestamp: int = EARLIEST, offset: int | None = None) -> dict[TopicPartition, int]:
        return admin.reset_group("moved", topics=[ottla_topic.name], timestamp=timestamp, offset=offset)

    assert reset(timestamp=2_000_000) == {p0: 5, p1: 1, p2: 0}
    assert {at: found.offset for at, found in admin.group_offsets("moved").items()} == {p0: 5, p1: 1, p2: 0}
    assert reset(offset=3) == {p0: 3, p1: 1, p2: 0}
    assert reset(timestamp=LATEST) == {p0: 7, p1: 1, p2: 0}
    assert admin.reset_group("moved", dry_run=True) == {p0: 0, p1: 0, p2: 0}
    assert admin.group_offsets("moved")[p0].offset == 7


def test_a_missing_group_is_told(ottla_node: OttlaNode) -> None:
    with pytest.raises(GroupNotFoundError):
        ottla_node.admin().describe_group("nobody")


def test_where_nobody_listens_the_call_ends_in_time() -> None:
    admin = Admin(AdminConfig(bootstrap_servers="127.0.0.1:1", request_timeout_ms=500))

    with pytest.raises((UnreachableError, TimedOutError)):
        admin.list_topics()
    with pytest.raises((UnreachableError, TimedOutError)):
        admin.create_topic("t")

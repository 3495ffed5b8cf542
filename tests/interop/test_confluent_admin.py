"""librdkafka (confluent-kafka): administration."""

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.confluent import fill, new_consumer, read, read_all
from tests.interop.conftest import MakeTopic
from tests.interop.waiting import eventually


def _code(future: Any) -> int:
    with pytest.raises(KafkaException) as failure:
        future.result(20)
    return int(failure.value.args[0].code())


def test_a_topic_is_made_described_and_deleted(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 3, 1)])[unique].result(10)
    eventually(lambda: unique in admin.list_topics(timeout=10).topics)

    described = admin.describe_topics(TopicCollection([unique]))[unique].result(10)
    assert described.name == unique
    assert [(part.id, part.leader.id, len(part.replicas), len(part.isr)) for part in described.partitions] == [
        (number, described.partitions[0].leader.id, 1, 1) for number in range(3)
    ]
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"

    admin.delete_topics([unique])[unique].result(10)
    eventually(lambda: unique not in admin.list_topics(timeout=10).topics)


def test_a_deleted_topic_that_is_made_again_is_empty(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 50)
    admin.delete_topics([topic], operation_timeout=10)[topic].result(10)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    eventually(lambda: topic in admin.list_topics(timeout=10).topics)

    fill(bootstrap, topic, 3)

    messages = read_all(bootstrap, topic, 3)
    assert [(message.offset(), message.value()) for message in messages] == [(0, b"0"), (1, b"1"), (2, b"2")]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda name: NewTopic("no spaces", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (lambda name: NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (lambda name: NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (lambda name: NewTopic(name, 0, 1), KafkaError.INVALID_PARTITIONS),
        (lambda name: NewTopic(name, 1, 5), KafkaError.INVALID_REPLICATION_FACTOR),
        (lambda name: NewTopic(name, 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG),
        (lambda name: NewTopic(name, 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (lambda name: NewTopic(name, 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_can_not_be_is_refused(admin: AdminClient, unique: str, make: Any, code: int) -> None:
    new_topic = make(unique)

    assert _code(admin.create_topics([new_topic])[new_topic.topic]) == code


def test_a_topic_that_exists_is_not_made_again(admin: AdminClient, topic: str) -> None:
    assert _code(admin.create_topics([NewTopic(topic, 1, 1)])[topic]) == KafkaError.TOPIC_ALREADY_EXISTS


def test_names_that_differ_in_dot_and_underscore_collide(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(f"{unique}.a_b", 1, 1)])[f"{unique}.a_b"].result(10)

    code = _code(admin.create_topics([NewTopic(f"{unique}_a.b", 1, 1)])[f"{unique}_a.b"])

    assert code == KafkaError.TOPIC_EXCEPTION


def test_a_request_that_only_asks_makes_nothing(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, 1, 1)], validate_only=True)[unique].result(10)

    assert unique not in admin.list_topics(timeout=10).topics


def test_a_topic_that_is_not_there_can_not_be_deleted(admin: AdminClient, unique: str) -> None:
    assert _code(admin.delete_topics([unique])[unique]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_defaults_of_the_broker_hold_for_partitions_that_are_not_given(admin: AdminClient, unique: str) -> None:
    admin.create_topics([NewTopic(unique, -1, -1)])[unique].result(10)

    eventually(lambda: unique in admin.list_topics(timeout=10).topics)
    assert len(admin.list_topics(unique, timeout=10).topics[unique].partitions) >= 1


def test_replicas_can_be_placed_by_hand(admin: AdminClient, unique: str) -> None:
    (broker,) = admin.list_topics(timeout=10).brokers
    admin.create_topics([NewTopic(unique, 2, replica_assignment=[[broker], [broker]])])[unique].result(10)

    eventually(lambda: unique in admin.list_topics(timeout=10).topics)
    assert len(admin.list_topics(unique, timeout=10).topics[unique].partitions) == 2


def test_a_topic_grows_but_does_not_shrink(admin: AdminClient, bootstrap: str, topic: str) -> None:
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4)

    assert _code(admin.create_partitions([NewPartitions(topic, 2)])[topic]) == KafkaError.INVALID_PARTITIONS
    fill(bootstrap, topic, 5, partition=3)
    assert len(read_all(bootstrap, topic, 5, partitions=[3])) == 5


def test_the_cluster_describes_itself(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(10)

    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id


def _configs(admin: AdminClient, kind: Any, name: str) -> dict[str, Any]:
    resource = ConfigResource(kind, name)
    described: dict[str, Any] = admin.describe_configs([resource])[resource].result(10)
    return described


def test_configs_of_a_topic_tell_their_source(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="12345")

    configs = _configs(admin, ResourceType.TOPIC, topic)

    assert (configs["retention.ms"].value, configs["retention.ms"].source) == (
        "12345",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert (configs["segment.bytes"].value, configs["segment.bytes"].source) == (
        "1073741824",
        ConfigSource.DEFAULT_CONFIG.value,
    )
    assert configs["segment.bytes"].is_default
    assert not configs["cleanup.policy"].is_read_only
    assert configs["cleanup.policy"].value == "delete"
    assert configs["max.message.bytes"].value == "1048588"


def test_configs_of_the_broker_are_told(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=10).brokers

    configs = _configs(admin, ResourceType.BROKER, str(broker))

    assert configs["log.segment.bytes"].value == "1073741824"
    assert configs["broker.id"].is_read_only


def test_configs_of_an_unknown_topic_are_an_error(admin: AdminClient, unique: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, unique)

    assert _code(admin.describe_configs([resource])[resource]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def _change(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=operation)


def test_single_configs_are_set_added_to_and_reset(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="12345")

    def alter(*changes: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(changes))
        admin.incremental_alter_configs([resource])[resource].result(10)

    def value(name: str) -> str:
        return str(_configs(admin, ResourceType.TOPIC, topic)[name].value)

    alter(_change("segment.ms", "60000", AlterConfigOpType.SET))
    eventually(lambda: value("segment.ms") == "60000")
    assert value("retention.ms") == "12345"
    alter(_change("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    eventually(lambda: sorted(value("cleanup.policy").split(",")) == ["compact", "delete"])
    alter(_change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
    eventually(lambda: value("cleanup.policy") == "compact")
    alter(_change("retention.ms", None, AlterConfigOpType.DELETE))
    eventually(lambda: value("retention.ms") == "604800000")


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_all_configs_are_replaced_at_once(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="12345")
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "60000"})

    admin.alter_configs([resource])[resource].result(10)

    eventually(lambda: _configs(admin, ResourceType.TOPIC, topic)["segment.ms"].value == "60000")
    assert _configs(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"


def test_a_config_that_can_not_be_is_refused(admin: AdminClient, topic: str) -> None:
    change = _change("retention.ms", "soon", AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])

    assert _code(admin.incremental_alter_configs([resource])[resource]) == KafkaError.INVALID_CONFIG


def test_deleted_records_are_gone_and_the_log_starts_after_them(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 100)
    partition = TopicPartition(topic, 0, 40)

    deleted = admin.delete_records([partition])[partition].result(10)

    assert deleted.low_watermark == 40
    consumer = new_consumer(bootstrap)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (40, 100)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert read(consumer, 1)[0].offset() == 40
    consumer.close()


def test_records_beyond_the_end_can_not_be_deleted(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    partition = TopicPartition(topic, 0, 11)

    assert _code(admin.delete_records([partition])[partition]) == KafkaError.OFFSET_OUT_OF_RANGE


def test_all_records_are_deleted_with_the_end_as_offset(admin: AdminClient, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    partition = TopicPartition(topic, 0, -1)

    assert admin.delete_records([partition])[partition].result(10).low_watermark == 10


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 9),
        (OffsetSpec.for_timestamp(0), 0),
        (OffsetSpec.for_timestamp(4_000_000_000_000), -1),
    ],
)
def test_offsets_are_listed_by_every_special_time(
    admin: AdminClient, bootstrap: str, topic: str, spec: OffsetSpec, offset: int
) -> None:
    for _ in range(10):
        fill(bootstrap, topic, 1)
    partition = TopicPartition(topic, 0)

    found = admin.list_offsets({partition: spec})[partition].result(10)

    assert found.offset == offset


def _committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
    return {(part.topic, part.partition): part.offset for part in listed.topic_partitions}


def test_a_group_is_listed_described_and_deleted(admin: AdminClient, bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 5)
    consumer = new_consumer(bootstrap, unique, client_id="the-client")
    consumer.subscribe([topic])
    read(consumer, 5)
    consumer.commit(asynchronous=False)

    assert unique in {group.group_id for group in admin.list_consumer_groups().result(10).valid}
    described = admin.describe_consumer_groups([unique])[unique].result(10)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (member,) = described.members
    assert member.client_id == "the-client"
    assert [part.partition for part in member.assignment.topic_partitions] == [0]
    assert _code(admin.delete_consumer_groups([unique])[unique]) == KafkaError.NON_EMPTY_GROUP

    consumer.close()
    assert admin.describe_consumer_groups([unique])[unique].result(10).state == ConsumerGroupState.EMPTY
    assert _committed(admin, unique) == {(topic, 0): 5}
    admin.delete_consumer_groups([unique])[unique].result(10)
    assert unique not in {group.group_id for group in admin.list_consumer_groups().result(10).valid}


def test_groups_are_listed_by_state(admin: AdminClient, bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 1)
    consumer = new_consumer(bootstrap, unique)
    consumer.subscribe([topic])
    read(consumer, 1)

    def listed(state: ConsumerGroupState) -> set[str]:
        return {group.group_id for group in admin.list_consumer_groups(states={state}).result(10).valid}

    assert unique in listed(ConsumerGroupState.STABLE)
    assert unique not in listed(ConsumerGroupState.EMPTY)
    consumer.close()


def test_offsets_of_an_empty_group_can_be_moved(admin: AdminClient, bootstrap: str, topic: str, unique: str) -> None:
    fill(bootstrap, topic, 10)
    wanted = ConsumerGroupTopicPartitions(unique, [TopicPartition(topic, 0, 4)])

    admin.alter_consumer_group_offsets([wanted])[unique].result(10)

    assert _committed(admin, unique) == {(topic, 0): 4}
    consumer = new_consumer(bootstrap, unique)
    consumer.subscribe([topic])
    assert read(consumer, 1)[0].offset() == 4
    consumer.close()


def test_offsets_of_a_group_with_members_can_not_be_moved(
    admin: AdminClient, bootstrap: str, topic: str, unique: str
) -> None:
    fill(bootstrap, topic, 10)
    consumer = new_consumer(bootstrap, unique)
    consumer.subscribe([topic])
    read(consumer, 1)
    wanted = ConsumerGroupTopicPartitions(unique, [TopicPartition(topic, 0, 4)])

    (answer,) = admin.alter_consumer_group_offsets([wanted])[unique].result(10).topic_partitions

    assert answer.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    consumer.close()


def test_a_group_that_is_not_there_can_not_be_deleted(admin: AdminClient, unique: str) -> None:
    assert _code(admin.delete_consumer_groups([unique])[unique]) == KafkaError.GROUP_ID_NOT_FOUND

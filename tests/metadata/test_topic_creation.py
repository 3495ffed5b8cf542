import random

import pytest

from ottla.config import BrokerConfig, GroupConfig
from ottla.errors import ErrorCode
from ottla.metadata.config_defs import ConfigSource
from ottla.metadata.controller import Controller
from ottla.metadata.deciding import RECORDS_MAX
from ottla.metadata.topic_configs import topic_configs
from ottla.metadata.topic_creation import new_topic_id
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from ottla.types import NO_TOPIC_ID, topic_id_text
from tests.metadata.cluster import a_controller, commit, create, topic


def only(controller: Controller, wanted: CreatableTopic) -> CreatableTopicResult:
    (result,) = commit(controller, controller.create_topics(CreateTopicsRequest(topics=[wanted]))).topics
    return result


def manual(*assignments: list[int], first: int = 0) -> CreatableTopic:
    return CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignments, first)
        ],
    )


def test_a_topic_is_there_once_its_records_are_replayed() -> None:
    controller = a_controller()
    result = only(controller, topic("orders", partitions=3))
    created = controller.image.topics["orders"]
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (created.topic_id, 3, 1)
    assert created.topic_id != NO_TOPIC_ID
    assert [p.leader for p in created.partitions.values()] == [1, 1, 1]
    assert {(p.leader_epoch, p.partition_epoch, p.isr) for p in created.partitions.values()} == {(0, 0, (1,))}


def test_nothing_happens_before_the_records_are_replayed() -> None:
    controller = a_controller()
    before = controller.image
    result = controller.create_topics(CreateTopicsRequest(topics=[topic("a")]))
    assert controller.image is before
    assert [type(record) for record in result.records] == [TopicRecord, PartitionRecord]


def test_a_topics_records_are_the_topic_then_its_configs_then_its_partitions() -> None:
    controller = a_controller()
    wanted = topic("a", 2, configs={"retention.ms": "1000"})
    result = controller.create_topics(CreateTopicsRequest(topics=[wanted]))
    assert [type(record) for record in result.records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]


def test_the_answer_describes_the_configs_in_force() -> None:
    controller = a_controller(config=BrokerConfig(num_partitions=4))
    result = only(controller, topic("a", -1, -1, {"retention.ms": "1000"}))
    configs = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert result.num_partitions == 4
    assert list(configs) == sorted(topic_configs())
    assert configs["retention.ms"] == ("1000", ConfigSource.TOPIC)
    assert configs["segment.bytes"] == (str(1 << 30), ConfigSource.DEFAULT)


def test_numbers_that_are_left_to_the_broker_are_its_defaults() -> None:
    controller = a_controller(3, config=BrokerConfig(num_partitions=6, default_replication_factor=3))
    result = only(controller, topic("a", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (6, 3)


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (topic("dot.ted"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: dot_ted"),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (topic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR, "3 time(s)"),
        (topic("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "at most"),
        (topic("t", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (topic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
        (
            topic("t", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            ErrorCode.INVALID_CONFIG,
            "min_compaction_lag_ms",
        ),
        (manual([1], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "other partitions of the topic have 1"),
        (manual([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (manual([1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (manual([9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        (manual([1], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "numbered from 0"),
    ],
)
def test_what_can_not_be_created_is_refused_with_the_reason(
    wanted: CreatableTopic, code: ErrorCode, message: str
) -> None:
    controller = a_controller(2)
    create(controller, "taken", "dot_ted")
    before = controller.image
    result = only(controller, wanted)
    assert result.error_code == code
    assert message in (result.error_message or "")
    assert controller.image is before


def test_a_manual_assignment_goes_without_numbers() -> None:
    wanted = CreatableTopic(
        name="t", num_partitions=1, replication_factor=-1, assignments=[CreatableReplicaAssignment(broker_ids=[1])]
    )
    assert only(a_controller(), wanted).error_code == ErrorCode.INVALID_REQUEST


def test_a_manual_assignment_is_followed() -> None:
    controller = a_controller(3)
    result = only(controller, manual([2, 3], [3, 1]))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    partitions = controller.image.topics["t"].partitions
    assert [(p.replicas, p.leader) for p in partitions.values()] == [((2, 3), 2), ((3, 1), 3)]


def test_one_bad_topic_does_not_keep_the_others_from_being_created() -> None:
    controller = a_controller()
    results = create(controller, "a", "b/b", "c")
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert list(controller.image.topics) == ["a", "c"]


def test_a_name_given_twice_is_created_not_even_once() -> None:
    controller = a_controller()
    results = {result.name: result.error_code for result in create(controller, "a", "b", "a")}
    assert results == {"a": ErrorCode.INVALID_REQUEST, "b": ErrorCode.NONE}
    assert list(controller.image.topics) == ["b"]


def test_two_topics_of_one_request_may_not_collide_either() -> None:
    results = create(a_controller(), "a.b", "a_b")
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_name_is_free_again_after_its_topic_is_deleted() -> None:
    controller = a_controller()
    create(controller, "a.b")
    commit(controller, controller.delete_topics(DeleteTopicsRequest(topic_names=["a.b"])))
    assert create(controller, "a_b")[0].error_code == ErrorCode.NONE


def test_validate_only_answers_but_writes_nothing() -> None:
    controller = a_controller()
    request = CreateTopicsRequest(topics=[topic("a", 3), topic("b", 0)], validate_only=True)
    result = controller.create_topics(request)
    assert result.records == ()
    assert result.response is not None
    assert [answer.error_code for answer in result.response.topics] == [0, ErrorCode.INVALID_PARTITIONS]
    assert result.response.topics[0].num_partitions == 3
    assert result.response.topics[0].topic_id == NO_TOPIC_ID


def test_a_request_that_is_too_large_is_granted_as_far_as_it_goes() -> None:
    controller = a_controller()
    half = RECORDS_MAX // 2
    results = create(controller, "a", "b", partitions=half)
    assert [result.error_code for result in results] == [0, ErrorCode.POLICY_VIOLATION]
    assert len(controller.image.topics["a"].partitions) == half


def test_topics_of_one_partition_do_not_all_land_on_one_broker() -> None:
    controller = a_controller(3)
    create(controller, *(f"t{number}" for number in range(40)))
    assert {topic.partitions[0].leader for topic in controller.image.topics.values()} == {1, 2, 3}


def test_replicas_are_put_on_different_racks() -> None:
    controller = a_controller(4, racks=["a", "a", "b", "b"])
    create(controller, "t", partitions=8, replication_factor=2)
    for partition in controller.image.topics["t"].partitions.values():
        assert {broker <= 2 for broker in partition.replicas} == {True, False}


def test_a_topic_by_first_use_gets_as_many_replicas_as_there_are_brokers_for() -> None:
    controller = a_controller(2, config=BrokerConfig(default_replication_factor=3))
    request = CreateTopicsRequest(topics=[topic("a", -1, -1)])
    (result,) = commit(controller, controller.create_topics(request, automatic=True)).topics
    assert (result.error_code, result.replication_factor, result.configs) == (ErrorCode.NONE, 2, ())


def test_the_offsets_topic_by_first_use_has_settings_of_its_own() -> None:
    groups = GroupConfig(offsets_topic_num_partitions=7, offsets_topic_segment_bytes=1_000)
    controller = a_controller(config=BrokerConfig(groups=groups))
    request = CreateTopicsRequest(topics=[topic("__consumer_offsets", -1, -1)])
    commit(controller, controller.create_topics(request, automatic=True))
    image = controller.image
    assert len(image.topics["__consumer_offsets"].partitions) == 7
    assert image.config_of(2, "__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1000",
    }


def test_an_internal_topic_that_nobody_serves_does_not_come_to_be_by_being_asked_for() -> None:
    controller = a_controller()
    request = CreateTopicsRequest(topics=[topic("__share_group_state", -1, -1)])
    (result,) = commit(controller, controller.create_topics(request, automatic=True)).topics
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not controller.image.topics


def test_without_a_broker_nothing_can_be_created() -> None:
    controller = a_controller(0)
    assert create(controller, "a")[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_text_of_a_topic_id_can_be_used_on_a_command_line() -> None:
    image, source = a_controller().image, random.Random(5)
    ids = {new_topic_id(source, image) for _ in range(2_000)}
    assert len(ids) == 2_000
    assert not any(topic_id_text(topic_id).startswith("-") for topic_id in ids)
    assert {topic_id[6] >> 4 for topic_id in ids} == {4}, "a random UUID says so"

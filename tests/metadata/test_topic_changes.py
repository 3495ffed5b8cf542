from collections.abc import Sequence

import pytest

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.deciding import RECORDS_MAX
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from tests.metadata.cluster import a_controller, commit, create, topic


def delete(controller: Controller, *states: DeleteTopicState) -> Sequence[DeletableTopicResult]:
    return commit(controller, controller.delete_topics(DeleteTopicsRequest(topics=states))).responses


def add(
    controller: Controller,
    name: str,
    count: int,
    assignments: Sequence[list[int]] | None = None,
    *,
    validate_only: bool = False,
) -> CreatePartitionsTopicResult:
    wanted = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
    )
    request = CreatePartitionsRequest(topics=[wanted], validate_only=validate_only)
    (result,) = commit(controller, controller.create_partitions(request)).results
    return result


def offsets_topic(controller: Controller) -> None:
    request = CreateTopicsRequest(topics=[topic("__consumer_offsets", -1, -1)])
    commit(controller, controller.create_topics(request, automatic=True))


def test_topics_are_deleted_by_name_and_by_id() -> None:
    controller = a_controller()
    create(controller, "a", "b", "c")
    b = controller.image.topics["b"].topic_id
    results = delete(controller, DeleteTopicState(name="a"), DeleteTopicState(topic_id=b))
    assert [(result.name, result.error_code) for result in results] == [("a", 0), ("b", 0)]
    assert results[1].topic_id == b
    assert list(controller.image.topics) == ["c"]


def test_older_versions_name_topics_in_a_list_of_their_own() -> None:
    controller = a_controller()
    create(controller, "a")
    (result,) = commit(controller, controller.delete_topics(DeleteTopicsRequest(topic_names=["a"]))).responses
    assert (result.name, result.error_code) == ("a", 0)
    assert not controller.image.topics


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (DeleteTopicState(name="nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(topic_id=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="a", topic_id=b"x" * 16), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_can_not_be_deleted_is_refused(state: DeleteTopicState, code: ErrorCode) -> None:
    controller = a_controller()
    create(controller, "a")
    offsets_topic(controller)
    (result,) = delete(controller, state)
    assert (result.error_code, result.name, result.topic_id) == (code, state.name, state.topic_id)
    assert set(controller.image.topics) == {"a", "__consumer_offsets"}


def test_a_topic_named_twice_is_deleted_once() -> None:
    controller = a_controller()
    create(controller, "a")
    topic_id = controller.image.topics["a"].topic_id
    results = delete(controller, DeleteTopicState(name="a"), DeleteTopicState(topic_id=topic_id))
    assert [result.error_code for result in results] == [0, ErrorCode.INVALID_REQUEST]


def test_deletion_can_be_switched_off() -> None:
    controller = a_controller(config=BrokerConfig(delete_topic_enable=False))
    with pytest.raises(BrokerError) as caught:
        delete(controller, DeleteTopicState(name="a"))
    assert caught.value.code == ErrorCode.TOPIC_DELETION_DISABLED


def test_a_topic_gets_more_partitions_that_go_on_round_the_brokers() -> None:
    controller = a_controller(3)
    create(controller, "a", partitions=2)
    assert add(controller, "a", 5).error_code == ErrorCode.NONE
    leaders = [partition.leader for partition in controller.image.topics["a"].partitions.values()]
    assert list(controller.image.topics["a"].partitions) == [0, 1, 2, 3, 4]
    assert [(leader - leaders[0]) % 3 for leader in leaders] == [0, 1, 2, 0, 1]


def test_new_partitions_can_be_assigned_by_hand() -> None:
    controller = a_controller(3)
    create(controller, "a", replication_factor=2)
    assert add(controller, "a", 3, [[3, 1], [2, 3]]).error_code == ErrorCode.NONE
    assert [p.replicas for p in controller.image.topics["a"].partitions.values()][1:] == [(3, 1), (2, 3)]


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("nope", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("a", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("a", 2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        ("a", RECORDS_MAX + 3, None, ErrorCode.POLICY_VIOLATION),
        ("a", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("a", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("__consumer_offsets", 100, None, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_partitions_that_can_not_be_added_are_refused(
    name: str, count: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    controller = a_controller(2)
    create(controller, "a", partitions=2)
    offsets_topic(controller)
    before = controller.image
    result = add(controller, name, count, assignments)
    assert result.error_code == code
    assert result.error_message
    assert controller.image is before


def test_adding_partitions_can_be_tried_out() -> None:
    controller = a_controller()
    create(controller, "a")
    assert add(controller, "a", 3, validate_only=True).error_code == ErrorCode.NONE
    assert len(controller.image.topics["a"].partitions) == 1


def test_a_topic_named_twice_gets_no_partitions() -> None:
    controller = a_controller()
    create(controller, "a")
    topics = [CreatePartitionsTopic(name="a", count=count, assignments=None) for count in (2, 3)]
    (result,) = commit(controller, controller.create_partitions(CreatePartitionsRequest(topics=topics))).results
    assert (result.name, result.error_code) == ("a", ErrorCode.INVALID_REQUEST)
    assert len(controller.image.topics["a"].partitions) == 1

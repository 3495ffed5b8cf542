"""How failures of a group's log are told."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.group_calls import ask, caller, unknown_partitions
from ottla.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.handlers.group_node import FailingCommitNode, GroupNode, image_of


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_log_that_fails_makes_clients_look_for_the_coordinator(failure: ErrorCode, told: ErrorCode) -> None:
    node = GroupNode()
    node.failure = BrokerError(failure)

    asked = ask(node.context(0), "g", lambda shard, _, __: shard.delete_group("g"))

    assert asked.error is not None
    assert asked.error.code is told


def test_a_commit_that_fails_later_is_told_in_the_same_way() -> None:
    asked = ask(FailingCommitNode().context(0), "g", lambda shard, _, __: shard.delete_group("g"))

    assert asked.error is not None
    assert asked.error.code is ErrorCode.NOT_COORDINATOR


def test_an_answer_without_a_place_for_errors_is_made_from_the_error() -> None:
    node = GroupNode()
    node.failure = BrokerError(ErrorCode.NOT_COORDINATOR)

    asked = ask(node.context(0), "g", lambda *_: pytest.fail("not asked"), refused=lambda error: error.name)

    assert asked.value == "NOT_COORDINATOR"


def test_the_host_is_shown_as_java_shows_it() -> None:
    assert caller(GroupNode().context(5)) == ("client", "/10.0.0.7", 5)


def test_partitions_that_do_not_exist_are_found() -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=name, partitions=[OffsetCommitRequestPartition(partition_index=index) for index in (0, 2, -1)]
        )
        for name in ("t", "x")
    ]

    assert unknown_partitions(image_of("t", 2), topics) == {("t", 2), ("t", -1), ("x", 0), ("x", 2), ("x", -1)}

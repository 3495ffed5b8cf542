from collections.abc import Sequence

import pytest

from ottla.errors import ErrorCode
from ottla.handlers import describe_topic_partitions as module
from ottla.handlers.describe_topic_partitions import describe_topic_partitions
from ottla.handlers.operations import TOPIC_OPERATIONS
from ottla.protocol.codec import encode
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.protocol.messages.metadata_records import BrokerRegistrationChangeRecord
from tests.handlers.admin_node import AdminNode
from tests.metadata.cluster import create


@pytest.fixture
def node() -> AdminNode:
    """Topics b (5 partitions), a (2) and c (1)."""
    node = AdminNode(brokers=2)
    create(node.state, "b", partitions=5)
    create(node.state, "a", partitions=2, replication_factor=2)
    create(node.state, "c")
    return node


def ask(
    node: AdminNode, *names: str, limit: int = 2_000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
    )
    answer = describe_topic_partitions(request, node.context())
    encode(answer, 0)
    return answer


def partitions(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, Sequence[int]]]:
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in answer.topics]


def test_without_names_all_topics_are_told_in_order(node: AdminNode) -> None:
    answer = ask(node)
    assert partitions(answer) == [("a", [0, 1]), ("b", [0, 1, 2, 3, 4]), ("c", [0])]
    assert answer.next_cursor is None
    assert {topic.topic_authorized_operations for topic in answer.topics} == {TOPIC_OPERATIONS}
    first = answer.topics[0].partitions[0]
    registered = node.image.topics["a"].partitions[0]
    assert (first.leader_id, tuple(first.replica_nodes), tuple(first.isr_nodes)) == (
        registered.leader,
        registered.replicas,
        registered.isr,
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8, 100, 0, -5])
def test_all_pages_together_are_everything_once(node: AdminNode, limit: int) -> None:
    found: list[tuple[str | None, int]] = []
    cursor, pages = None, 0
    while pages < 20:
        answer = ask(node, limit=limit, cursor=cursor)
        page = [(name, index) for name, indexes in partitions(answer) for index in indexes]
        assert len(page) <= max(1, limit)
        found, pages, cursor = found + page, pages + 1, answer.next_cursor
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), *(("b", index) for index in range(5)), ("c", 0)]


def test_an_answer_is_bounded_whatever_the_client_asks_for(node: AdminNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTITIONS_MAX", 3)
    answer = ask(node, limit=2**31 - 1)
    assert partitions(answer) == [("a", [0, 1]), ("b", [0])]
    assert answer.next_cursor == Cursor(topic_name="b", partition_index=1)


def test_only_the_topics_that_are_named_are_told(node: AdminNode) -> None:
    answer = ask(node, "c", "nope", "a/b", "a")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.NONE),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next(node: AdminNode) -> None:
    assert partitions(ask(node, cursor=Cursor(topic_name="bb", partition_index=0))) == [("c", [0])]


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="z", partition_index=0), Cursor(topic_name="a", partition_index=-1)]
)
def test_a_cursor_outside_the_topics_asked_for_is_refused(node: AdminNode, cursor: Cursor) -> None:
    answer = ask(node, "a", "b", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]


def test_replicas_on_fenced_brokers_are_offline(node: AdminNode) -> None:
    node.state.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=1))
    (topic,) = ask(node, "a").topics
    assert [list(p.offline_replicas) for p in topic.partitions] == [[2], [2]]

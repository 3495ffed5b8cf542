"""Requests from inside the process."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import Admin
from ottla.embedded import EmbeddedNode
from ottla.errors import BrokerError, DiskFailedError, ErrorCode, ProtocolError
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from ottla.protocol.schema import Request
from ottla.runtime.local import Appended
from ottla.runtime.node import Node
from ottla.services import Deferred


def answer_to(embedded: EmbeddedNode, ask: Callable[[Node], Deferred[Any]]) -> Any:
    """The answer, fetched from the node's thread. Raises what the handler refused with."""
    answers: list[Any] = []
    answered = threading.Event()

    def call(node: Any) -> None:
        try:
            ask(node).on_done(tell)
        except ProtocolError as error:
            answers.append(error)
            answered.set()

    def tell(answer: Any) -> None:
        answers.append(answer.error or answer.value)
        answered.set()

    embedded.call_soon(call)
    assert answered.wait(10)
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


def call(embedded: EmbeddedNode, request: Request, api_version: int) -> Any:
    return answer_to(embedded, lambda node: node.local.handle(request, api_version))


def append(embedded: EmbeddedNode, batches: Mapping[int, bytes], topic: str = "t") -> Mapping[int, int | ErrorCode]:
    appended: Appended = answer_to(embedded, lambda node: node.local.append(topic, batches))
    return {index: told.code if isinstance(told, BrokerError) else told for index, told in appended.items()}


def batch(*values: bytes) -> bytes:
    return build_batch([Record(None, value, (), 1_700_000_000_000) for value in values])


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedNode]:
    with EmbeddedNode(tmp_path) as embedded:
        with Admin(bootstrap_servers=embedded.bootstrap) as admin:
            admin.create_topic("t", partitions=2)
        yield embedded


def test_a_request_is_served_as_if_a_client_had_sent_it(tmp_path: Path) -> None:
    with EmbeddedNode(tmp_path) as embedded:
        answer = call(embedded, DescribeClusterRequest(), 0)

    assert [broker.broker_id for broker in answer.brokers] == [1]


def test_a_refusal_inside_the_answer_stays_there(tmp_path: Path) -> None:
    data = TopicProduceData(name="nowhere", partition_data=[PartitionProduceData(index=0, records=memoryview(b""))])
    with EmbeddedNode(tmp_path) as embedded:
        answer = call(embedded, ProduceRequest(acks=-1, topic_data=[data]), 11)

    [[refused]] = [topic.partition_responses for topic in answer.responses]
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_version_that_is_not_served_is_refused(tmp_path: Path) -> None:
    with EmbeddedNode(tmp_path) as embedded, pytest.raises(ProtocolError):
        call(embedded, DescribeClusterRequest(), 99)


def test_a_node_that_does_not_run_cannot_be_called(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not running"):
        EmbeddedNode(tmp_path).call_soon(lambda node: None)


def test_batches_are_appended_and_the_answer_has_their_offsets(embedded: EmbeddedNode) -> None:
    assert append(embedded, {0: batch(b"a", b"b"), 1: batch(b"c")}) == {0: 0, 1: 0}
    assert append(embedded, {0: batch(b"d")}) == {0: 2}

    assert embedded.node is not None
    assert embedded.node.partitions.get("t", 0).high_watermark == 3


def test_one_batch_is_refused_and_the_others_are_appended(embedded: EmbeddedNode) -> None:
    damaged = batch(b"a")[:-1] + b"?"

    assert append(embedded, {0: damaged, 1: batch(b"b"), 9: batch(b"c")}) == {
        0: ErrorCode.CORRUPT_MESSAGE,
        1: 0,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert append(embedded, {0: batch(b"a")}, topic="nowhere") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_where_a_request_is_needed_the_answer_is_the_same(embedded: EmbeddedNode) -> None:
    """A disk that was full when it was last looked at, say: Produce looks again, and finds room here."""
    assert embedded.node is not None
    embedded.node.room.is_full = True

    assert append(embedded, {0: batch(b"a", b"b"), 9: batch(b"c")}) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert embedded.node.room.is_full is False


def test_what_the_disk_refuses_is_refused_and_nothing_is_said_to_be_there(tmp_path: Path) -> None:
    embedded = EmbeddedNode(tmp_path).start()
    with Admin(bootstrap_servers=embedded.bootstrap) as admin:
        admin.create_topic("t", partitions=2)
    assert append(embedded, {0: batch(b"a")}) == {0: 0}

    assert embedded.node is not None
    embedded.node.logs.group_commit.poison(DiskFailedError("no more"))

    for _ in range(2):  # by the commit, and then at once
        assert append(embedded, {0: batch(b"b"), 9: batch(b"c")}) == {
            0: ErrorCode.KAFKA_STORAGE_ERROR,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    assert embedded.node.partitions.get("t", 0).high_watermark == 1
    with pytest.raises(DiskFailedError):
        embedded.stop()

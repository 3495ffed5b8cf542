"""Requests from inside the process."""

import threading
from pathlib import Path
from typing import Any

import pytest

from ottla.embedded import EmbeddedNode
from ottla.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.schema import Request


def call(embedded: EmbeddedNode, request: Request, api_version: int) -> Any:
    """The answer, fetched from the node's thread. Raises what the handler refused with."""
    answers: list[Any] = []
    answered = threading.Event()

    def ask(node: Any) -> None:
        try:
            node.local.handle(request, api_version).on_done(tell)
        except ProtocolError as error:
            answers.append(error)
            answered.set()

    def tell(answer: Any) -> None:
        answers.append(answer.error or answer.value)
        answered.set()

    embedded.call_soon(ask)
    assert answered.wait(10)
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


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

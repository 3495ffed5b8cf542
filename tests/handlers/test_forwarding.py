"""APIs of the controller, on nodes that are not the controller."""

from typing import Any, cast

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.create_topics import create_topics
from ottla.handlers.forwarding import is_refused_elsewhere, on_the_controller
from ottla.handlers.registry import apis
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.services import AUTOMATIC, FORWARDED, Deferred, RequestContext, Services
from tests.handlers.admin_node import AdminNode, answered

REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


class Elsewhere(AdminNode):
    """A node that is not the controller, and what it sends on."""

    is_controller = False

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[Any, dict[str, Any], Deferred[Any]]] = []

    @property
    def controller_channel(self) -> "Elsewhere":
        return self

    def send(self, request: Any, **options: Any) -> Deferred[Any]:
        self.sent.append((request, options, Deferred()))
        return self.sent[-1][2]

    def call(self, decide: Any) -> Deferred[Any]:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)


class Deposed(Elsewhere):
    """A controller until somebody else is elected, which it learns with what it has decided still in flight."""

    is_controller = True

    def __init__(self) -> None:
        super().__init__()
        self.in_flight: list[Deferred[Any]] = []

    def call(self, decide: Any) -> Deferred[Any]:
        self.in_flight.append(Deferred())
        return self.in_flight[-1]

    def lose(self, error: ErrorCode = ErrorCode.NOT_CONTROLLER) -> None:
        self.is_controller = False
        self.in_flight[0].fail(BrokerError(error))


def served_by(node: AdminNode, *, client_id: str = "somebody", api_version: int = 7) -> RequestContext:
    context = RequestContext(cast("Services", node), "127.0.0.1")
    context.client_id, context.api_version = client_id, api_version
    return context


def unregister(request: UnregisterBrokerRequest, ctx: RequestContext) -> Deferred[Any]:
    """A handler that leaves the refusal to whoever called it."""
    return ctx.controller.call(lambda controller, _token, _now_ms: cast(Any, None))


def assert_sent_on_and_passed_back(node: Elsewhere, answer: Deferred[Any]) -> None:
    """The request as it was, in the client's version, and the controller's answer."""
    [(request, options, sent)] = node.sent
    assert request is REQUEST
    assert options["version"] == 7
    response = CreateTopicsResponse()
    sent.complete(response)
    assert answer.value is response


def test_the_controller_serves_by_itself() -> None:
    served = on_the_controller(create_topics, CreateTopicsRequest)
    response = answered(served(REQUEST, served_by(AdminNode())))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE]


def test_another_node_sends_the_request_on_as_it_is_and_passes_the_answer_back() -> None:
    node = Elsewhere()
    answer = on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, served_by(node))
    assert_sent_on_and_passed_back(node, answer)


@pytest.mark.parametrize(("asked_ms", "given_ms"), [(0, 1_000), (5_000, 5_000), (2**31 - 1, 60_000)])
def test_the_client_says_how_long_it_waits_within_reason(asked_ms: int, given_ms: int) -> None:
    node = Elsewhere()
    request = CreateTopicsRequest(topics=REQUEST.topics, timeout_ms=asked_ms)
    on_the_controller(create_topics, CreateTopicsRequest)(request, served_by(node))
    assert node.sent[0][1]["timeout_ms"] == given_ms


@pytest.mark.parametrize("client_id", [FORWARDED, AUTOMATIC])
def test_what_was_sent_on_is_refused_where_it_can_not_be_decided(client_id: str) -> None:
    node = Elsewhere()
    response = answered(
        on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, served_by(node, client_id=client_id))
    )
    assert node.sent == []
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NOT_CONTROLLER]


def test_where_no_controller_answers_every_part_is_given_the_error() -> None:
    node = Elsewhere()
    answer = on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, served_by(node))
    node.sent[0][2].fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, "nobody"))
    response = answered(answer)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_handler_that_raises_the_refusal_is_answered_with_it_at_the_top() -> None:
    node = Elsewhere()
    answer = on_the_controller(unregister, UnregisterBrokerRequest)(UnregisterBrokerRequest(), served_by(node))
    node.sent[0][2].fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    assert answer.error.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_refusal_sees_the_rest_of_the_node_and_the_version() -> None:
    seen: list[Any] = []

    def unregister(request: UnregisterBrokerRequest, ctx: RequestContext) -> Deferred[UnregisterBrokerResponse]:
        seen.append((ctx.image, ctx.api_version))
        return ask_controller(ctx, cast(Any, None), lambda error: UnregisterBrokerResponse(error_code=error.code))

    node = Elsewhere()
    answer = on_the_controller(unregister, UnregisterBrokerRequest)(
        UnregisterBrokerRequest(), served_by(node, api_version=0)
    )
    node.sent[0][2].fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
    assert answered(answer).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert seen == [(node.image, 0)]


def test_a_controller_that_is_deposed_meanwhile_sends_the_request_on_as_it_was() -> None:
    node = Deposed()
    context = served_by(node)
    answer = on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, context)
    assert not answer.done
    context.api_version = 2  # the connection has gone on to another request
    node.lose()
    assert_sent_on_and_passed_back(node, answer)


def test_so_does_one_that_has_its_refusal_raised_at_the_top() -> None:
    node = Deposed()
    answer = on_the_controller(unregister, UnregisterBrokerRequest)(UnregisterBrokerRequest(), served_by(node))
    node.lose()
    node.sent[0][2].complete(UnregisterBrokerResponse())
    assert answered(answer).error_code == ErrorCode.NONE


def test_a_deposed_controller_refuses_what_was_sent_on_to_it() -> None:
    node = Deposed()
    answer = on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, served_by(node, client_id=FORWARDED))
    node.lose()
    assert node.sent == []
    assert [topic.error_code for topic in answered(answer).topics] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_what_a_controller_refuses_for_another_reason_is_refused(error: ErrorCode) -> None:
    node = Deposed()
    answer = on_the_controller(create_topics, CreateTopicsRequest)(REQUEST, served_by(node))
    node.lose(error)
    assert node.sent == []
    assert [topic.error_code for topic in answered(answer).topics] == [error]


def test_a_refusal_is_found_at_the_top_and_in_the_parts_of_an_answer() -> None:
    refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
    granted = CreatableTopicResult(name="t")
    assert is_refused_elsewhere(UnregisterBrokerResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert is_refused_elsewhere(CreateTopicsResponse(topics=[refused, refused]))
    assert not is_refused_elsewhere(CreateTopicsResponse(topics=[granted]))
    assert not is_refused_elsewhere(CreateTopicsResponse())
    assert not is_refused_elsewhere(ListPartitionReassignmentsResponse(error_message="no"))
    assert not is_refused_elsewhere(UnregisterBrokerResponse())


def test_what_brokers_ask_of_the_controller_is_never_sent_on() -> None:
    def alter(request: AlterPartitionRequest, ctx: RequestContext) -> str:
        return "decided or refused here"

    node = Elsewhere()
    assert on_the_controller(alter, AlterPartitionRequest)(AlterPartitionRequest(), served_by(node)) == (
        "decided or refused here"
    )
    assert node.sent == []


@pytest.mark.parametrize("key", [19, 20, 33, 37, 43, 44, 45, 46, 49, 55, 57, 64, 80, 81])
def test_all_that_changes_the_metadata_is_sent_on(key: int) -> None:
    from ottla.handlers import all as _all  # noqa: F401  # registers every handler

    node = Elsewhere()
    api = apis()[key]
    api.handler(api.request(), served_by(node))
    assert [type(request) for request, _, _ in node.sent] == [api.request]

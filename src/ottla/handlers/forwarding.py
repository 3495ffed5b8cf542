"""APIs that only the active controller can serve, on every node.

A client may ask any node to create a topic. A node that is not the controller sends the request on as it is, in the
same version, and passes the answer back. So does one that ceases to be the controller before what it has decided is
committed: an election is nothing that a client must know of. What was sent on is never sent on again: where a node only
believed that another was the controller, the request is refused with NOT_CONTROLLER and the sender looks for the right
one. Either way a request may be carried out twice, and the second time find its work done.

What brokers ask of the controller (to be registered, to change an ISR) is not passed on: a broker sends it to the
controller itself, and must hear when it asked the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.schema import Request
from ottla.services import AUTOMATIC, FORWARDED, Deferred, RequestContext, Services

BETWEEN_BROKERS = frozenset({56, 62, 63, 67, 70, 73, 82})
"""AlterPartition, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, ControllerRegistration,
AssignReplicasToDirs and UpdateRaftVoter."""
NOT_PASSED_ON = frozenset({FORWARDED, AUTOMATIC})

TIMEOUT_MS_DEFAULT = 30_000
TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000


def on_the_controller(handler: Any, request_class: type[Request]) -> Any:
    """`handler`, which decides here if this node is the controller and asks the one that is otherwise."""
    if request_class.api_key in BETWEEN_BROKERS:
        return handler

    def serve(request: Request, ctx: RequestContext) -> Any:
        if ctx.client_id in NOT_PASSED_ON:
            return handler(request, ctx)
        if ctx.services.is_controller:
            return _decide_here(handler, request, ctx)
        return _send_on(handler, request, ctx)

    return serve


def _decide_here(handler: Any, request: Request, ctx: RequestContext) -> Any:
    """Unless this node ceases to be the controller meanwhile: then by the next one."""
    asked_by = ctx.copy()
    decided = handler(request, ctx)
    if not isinstance(decided, Deferred):
        return decided
    answer: Deferred[Any] = Deferred()

    def done(decided: Deferred[Any]) -> None:
        error = decided.error
        if is_refused_elsewhere(decided.value) if error is None else error.code == ErrorCode.NOT_CONTROLLER:
            decided = _send_on(handler, request, asked_by)
        decided.on_done(partial(_pass_back, answer))

    decided.on_done(done)
    return answer


def _send_on(handler: Any, request: Request, ctx: RequestContext) -> Deferred[Any]:
    answer: Deferred[Any] = Deferred()
    services, client_host, api_version = ctx.services, ctx.client_host, ctx.api_version

    def done(asked: Deferred[Any]) -> None:
        if asked.error is None:
            answer.complete(asked.value)
        else:
            refusing = RequestContext(_Refusing(services, asked.error), client_host)
            refusing.api_version = api_version
            _refuse(answer, handler, request, refusing, asked.error)

    timeout_ms = _timeout_ms(request)
    services.controller_channel.send(request, version=api_version, timeout_ms=timeout_ms).on_done(done)
    return answer


def _pass_back(answer: Deferred[Any], done: Deferred[Any]) -> None:
    if done.error is None:
        answer.complete(done.value)
    else:
        answer.fail(done.error)


def is_refused_elsewhere(answer: Any) -> bool:
    """Whether an answer, or every part of it, says that the one asked is not the controller."""
    if getattr(answer, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in answer.field_names():
        value = getattr(answer, name)
        if isinstance(value, Sequence) and value and not isinstance(value, str | bytes):
            return getattr(value[0], "error_code", 0) == ErrorCode.NOT_CONTROLLER
    return False


def _timeout_ms(request: Request) -> int:
    """As long as the client is willing to wait, within reason."""
    wanted: int = getattr(request, "timeout_ms", TIMEOUT_MS_DEFAULT)
    return min(max(wanted, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)


def _refuse(answer: Deferred[Any], handler: Any, request: Request, ctx: RequestContext, reason: BrokerError) -> None:
    """The handler itself knows how its API tells of a failure: it is shown a controller that refuses."""
    try:
        refusal = handler(request, ctx)
    except BrokerError as error:
        answer.fail(error)
        return
    if not isinstance(refusal, Deferred):
        answer.fail(reason)
        return
    refusal.on_done(partial(_pass_back, answer))


class _Refusing:
    """The services of a node whose controller can't be reached."""

    def __init__(self, services: Services, error: BrokerError) -> None:
        self._services = services
        self._error = error

    @property
    def controller(self) -> _Refusing:
        return self

    def call(self, _decide: object) -> NoReturn:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._services, name)

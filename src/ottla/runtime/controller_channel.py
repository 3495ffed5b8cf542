"""Requests to the active controller, wherever it is.

If it is this node, the request goes to its handler without the wire; otherwise to the Kafka port of the node that is
known to lead the quorum. While none is known the request waits for one; when the wrong one was asked, or the connection
broke, or the controller moved in the meantime, it is sent again until its time is over. So a request may be carried out
twice if its first answer was lost: what is sent through here must bear that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.forwarding import is_refused_elsewhere
from ottla.services import FORWARDED, Deferred

if TYPE_CHECKING:
    import asyncio

    from ottla.metadata.image import MetadataImage
    from ottla.protocol.schema import Request
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.broker_link import Address

LOOK_MS = 50
"""How often it is looked for a controller on behalf of those who wait."""
ATTEMPT_MS_MAX = 5_000
CALLS_MAX = 2_000
HERE = -2
NOWHERE = -1

WORTH_ANOTHER_TRY = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.BROKER_NOT_AVAILABLE}
)

LocalHandler = Callable[["Request", "int | None", str], Deferred[Any]]
"""Serves a request on this node: the request, its version, the client id."""


class Call:
    """A request that has no answer yet."""

    __slots__ = ("answer", "asked", "attempt", "channel", "client_id", "deadline", "request", "trouble", "version")

    def __init__(self, request: Request, version: int | None, client_id: str, channel: str, deadline: float) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.channel = channel
        self.deadline = deadline
        self.answer: Deferred[Any] = Deferred()
        self.asked = NOWHERE
        """The node that has been asked; NOWHERE while the request waits."""
        self.attempt = 0
        """Answers to earlier attempts count for nothing."""
        self.trouble = "no controller is known"


class ControllerChannel:
    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        client: BrokerClient,
        node_id: int,
        is_here: Callable[[], bool],
        controller_id: Callable[[], int],
        address_of: Callable[[int], Address | None],
        serve_here: LocalHandler,
    ) -> None:
        """`address_of`: where a node serves the Kafka protocol, if that is known."""
        self._loop = loop
        self._client = client
        self._node_id = node_id
        self._is_here = is_here
        self._controller_id = controller_id
        self._address_of = address_of
        self._serve_here = serve_here
        self._calls: dict[Call, None] = {}
        """In the order in which they came."""
        self._alarm: asyncio.TimerHandle | None = None
        self._is_closed = False

    def send(
        self,
        request: Request,
        *,
        timeout_ms: float,
        version: int | None = None,
        client_id: str = FORWARDED,
        channel: str = "",
    ) -> Deferred[Any]:
        """The controller's answer; REQUEST_TIMED_OUT if there is none in time.

        `channel` names the connection: what must not wait behind others has one of its own.
        """
        call = Call(request, version, client_id, channel, self._loop.time() + timeout_ms / 1000)
        if self._is_closed or len(self._calls) >= CALLS_MAX:
            why = "this node is stopping" if self._is_closed else f"{CALLS_MAX} requests to the controller wait already"
            call.answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, why))
            return call.answer
        self._calls[call] = None
        self._try(call)
        self._set_alarm()
        return call.answer

    # One attempt.

    def _try(self, call: Call) -> None:
        target = self._target()
        if target == NOWHERE:
            call.trouble = "no controller is known"
            return
        asked = self._ask(call, target)
        if asked is None:
            call.trouble = f"the address of node {target}, the controller, is not known"
            return
        call.asked = target
        call.attempt += 1
        attempt = call.attempt
        asked.on_done(lambda done: self._answered(call, attempt, done))

    def _target(self) -> int:
        """A node that was elected and may not decide yet is waited for."""
        if self._is_here():
            return HERE
        elected = self._controller_id()
        return NOWHERE if elected == self._node_id else elected

    def _ask(self, call: Call, target: int) -> Deferred[Any] | None:
        if target == HERE:
            return self._serve_here(call.request, call.version, call.client_id)
        address = self._address_of(target)
        if address is None:
            return None
        left_ms = (call.deadline - self._loop.time()) * 1000
        return self._client.send(
            address,
            call.request,
            version=call.version,
            timeout_ms=min(max(left_ms, LOOK_MS), ATTEMPT_MS_MAX),
            channel=call.channel,
            client_id=call.client_id,
        )

    def _answered(self, call: Call, attempt: int, done: Deferred[Any]) -> None:
        if attempt != call.attempt or call not in self._calls:
            return
        error = done.error
        if error is None and is_refused_elsewhere(done.value):
            error = BrokerError(ErrorCode.NOT_CONTROLLER)
        if error is not None and error.code in WORTH_ANOTHER_TRY:
            call.asked = NOWHERE
            call.trouble = str(error)
            return
        del self._calls[call]
        self._set_alarm()
        if error is not None:
            call.answer.fail(error)
        else:
            call.answer.complete(done.value)

    # Those who wait.

    def _look(self) -> None:
        self._alarm = None
        now = self._loop.time()
        target = self._target()
        for call in tuple(self._calls):
            if call not in self._calls:
                continue
            if call.deadline <= now:
                del self._calls[call]
                call.answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"the controller: {call.trouble}"))
            elif call.asked != target != NOWHERE:
                self._try(call)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """A timer of the loop's own, while anybody waits: heartbeats are answered long before it, and one of `Timers`
        would wake an idle node for each."""
        if not self._calls and self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        elif self._calls and self._alarm is None:
            self._alarm = self._loop.call_later(LOOK_MS / 1000, self._look)

    def close(self) -> None:
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        calls, self._calls = self._calls, {}
        for call in calls:
            call.answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, "this node is stopping"))


def client_address(image: MetadataImage, node_id: int) -> Address | None:
    """Where a broker serves the Kafka protocol."""
    broker = image.brokers.get(node_id)
    if broker is None or not broker.endpoints:
        return None
    return broker.endpoints[0].host, broker.endpoints[0].port

"""How the handlers of APIs between brokers reach the controller, and how a failure of the whole request is told.

A broker that is not the controller answers NOT_CONTROLLER, as the controller itself does while it can't decide: who
asked looks for the controller again.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.errors import BrokerError
from ottla.metadata.controller import Controller
from ottla.replicated import Result
from ottla.services import Deferred, RequestContext

T = TypeVar("T")
R = TypeVar("R")


def ask_at(
    ctx: RequestContext,
    decide: Callable[[Controller, int], Result[Any, T]],
    granted: Callable[[T], R],
    refused: Callable[[BrokerError], R],
) -> Deferred[R]:
    """Let the controller decide, given its time in ms; `granted` or `refused` makes the answer."""
    answer: Deferred[R] = Deferred()

    def done(asked: Deferred[T]) -> None:
        if asked.error is not None:
            answer.complete(refused(asked.error))
        else:
            answer.complete(granted(asked.value))  # type: ignore[arg-type]  # no error, so there is a value

    try:
        ctx.controller.call(lambda controller, _token, now_ms: decide(controller, now_ms)).on_done(done)
    except BrokerError as error:
        answer.complete(refused(error))
    return answer

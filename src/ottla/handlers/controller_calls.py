"""How the handlers of admin APIs reach the controller, and how a failure of the whole request is told.

The answers of these APIs have an error for each topic or resource and none for all of them. So where the controller
can't write, every one of them is given that error.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.errors import BrokerError
from ottla.metadata.controller import Controller
from ottla.replicated import Result
from ottla.services import Deferred, RequestContext

T = TypeVar("T")


def ask_controller(
    ctx: RequestContext,
    decide: Callable[[Controller], Result[Any, T]],
    refused: Callable[[BrokerError], T],
) -> Deferred[T]:
    """Let the controller decide; `refused` makes the answer if nothing can be decided or written."""
    answer: Deferred[T] = Deferred()

    def done(asked: Deferred[T]) -> None:
        if asked.error is not None:
            answer.complete(refused(asked.error))
        else:
            answer.complete(asked.value)  # type: ignore[arg-type]  # no error, so there is a value

    try:
        ctx.controller.call(lambda controller, _token, _now_ms: decide(controller)).on_done(done)
    except BrokerError as error:
        answer.complete(refused(error))
    return answer

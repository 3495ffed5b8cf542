"""What the handlers of transaction APIs share: how coordinators are asked, and how failures are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.group_calls import AS_COORDINATOR
from ottla.services import Deferred

T = TypeVar("T")

FENCED = ErrorCode.PRODUCER_FENCED
ADDS_OFFSETS_FROM = 5
"""TxnOffsetCommit version that adds the group's partition to the transaction by itself."""


def older(code: int) -> ErrorCode:
    """For clients from before PRODUCER_FENCED: they know the same by another name."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == FENCED else ErrorCode(code)


def ask(call: Callable[[], Deferred[T]], refused: Callable[[ErrorCode], T]) -> Deferred[T]:
    """Ask a coordinator; `refused` makes the answer where it can't be asked, or could not write."""
    answer: Deferred[T] = Deferred()

    def refuse(error: BrokerError) -> None:
        answer.complete(refused(AS_COORDINATOR.get(error.code, error.code)))

    def done(asked: Deferred[T]) -> None:
        if asked.error is not None:
            refuse(asked.error)
        else:
            answer.complete(asked.value)  # type: ignore[arg-type]  # no error, so there is a value

    try:
        call().on_done(done)
    except BrokerError as error:
        refuse(error)
    return answer

"""Answers to acks=all: they wait for the high watermark, and no longer than the client wants to.

Hundreds of producers wait at any moment and nearly all are answered within milliseconds, so a time limit is not a
timer of its own: those who wait are looked through a few times a second, while there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.observability.metrics import Refusals
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.ports import Clock
    from ottla.replication.partition import Partition
    from ottla.runtime.timers import Timers

LOOK_MS = 100
"""How late a time limit may be noticed."""

T = TypeVar("T")
U = TypeVar("U")


class CommitAcks:
    def __init__(self, *, clock: Clock, timers: Timers, refusals: Refusals) -> None:
        self.refusals = refusals
        self._clock = clock
        self._timers = timers
        self._waiting: dict[WaitingAck, None] = {}
        self._is_looking = False

    def when_committed(
        self,
        answer: T,
        waits: Sequence[tuple[Partition, int, U]],
        refuse: Callable[[U, BrokerError], None],
        timeout_ms: int,
    ) -> Deferred[T]:
        waiting = WaitingAck(self, answer, waits, refuse, self._clock.monotonic_ms() + timeout_ms)
        self._waiting[waiting] = None
        waiting.start()
        if not self._is_looking and self._waiting:
            self._is_looking = True
            self._timers.after_ms(LOOK_MS, self._look)
        return waiting.deferred

    def done(self, waiting: WaitingAck) -> None:
        del self._waiting[waiting]

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for waiting in [waiting for waiting in self._waiting if waiting.deadline_ms <= now_ms]:
            waiting.expire()
        self._is_looking = bool(self._waiting)
        if self._is_looking:
            self._timers.after_ms(LOOK_MS, self._look)


class WaitingAck:
    """One request that waits for one or more partitions."""

    __slots__ = ("_acks", "_answer", "_refuse", "_waits", "deadline_ms", "deferred")

    def __init__(
        self,
        acks: CommitAcks,
        answer: Any,
        waits: Sequence[tuple[Partition, int, Any]],
        refuse: Callable[[Any, BrokerError], None],
        deadline_ms: int,
    ) -> None:
        self.deferred: Deferred[Any] = Deferred()
        self.deadline_ms = deadline_ms
        self._acks = acks
        self._answer = answer
        self._refuse = refuse
        self._waits: dict[int, tuple[Partition, int, Any]] = dict(enumerate(waits))
        """What is still waited for."""

    def start(self) -> None:
        for number, (partition, offset, _) in tuple(self._waits.items()):
            partition.when_committed(offset, partial(self._committed, number))

    def _committed(self, number: int, error: BrokerError | None) -> None:
        wait = self._waits.pop(number, None)
        if wait is None:
            return  # its time was up
        partition, _, subject = wait
        if error is None and partition.in_sync_replicas < partition.min_in_sync_replicas:
            error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if error is not None:
            self._say(subject, error)
        if not self._waits:
            self._finish()

    def expire(self) -> None:
        waits, self._waits = self._waits, {}
        error = BrokerError(ErrorCode.REQUEST_TIMED_OUT, "not all in-sync replicas have it yet")
        for _, _, subject in waits.values():
            self._say(subject, error)
        self._finish()

    def _say(self, subject: Any, error: BrokerError) -> None:
        self._acks.refusals.count("Produce", error.code.name)
        self._refuse(subject, error)

    def _finish(self) -> None:
        self._acks.done(self)
        self.deferred.complete(self._answer)

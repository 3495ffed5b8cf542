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
        self._waiting: dict[WaitingAck | WaitingForOne, None] = {}
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
            self._look_later()
        return waiting.deferred

    def when_one_committed(
        self, answer: T, partition: Partition, offset: int, on_failure: Callable[[T, BrokerError], Any], timeout_ms: int
    ) -> Deferred[Any]:
        waiting = WaitingForOne(self, answer, partition, on_failure, self._clock.monotonic_ms() + timeout_ms)
        self._waiting[waiting] = None
        partition.when_committed(offset, waiting.committed)
        if not self._is_looking and self._waiting:
            self._look_later()
        return waiting

    def done(self, waiting: WaitingAck | WaitingForOne) -> None:
        del self._waiting[waiting]

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for waiting in [waiting for waiting in self._waiting if waiting.deadline_ms <= now_ms]:
            waiting.expire()
        self._is_looking = False
        if self._waiting:
            self._look_later()

    def _look_later(self) -> None:
        self._is_looking = True
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


class WaitingForOne(Deferred[Any]):
    """One request that waits for one partition: what nearly all are, and so its own answer."""

    __slots__ = ("_acks", "_answer", "_on_failure", "_partition", "deadline_ms")

    def __init__(
        self,
        acks: CommitAcks,
        answer: Any,
        partition: Partition,
        on_failure: Callable[[Any, BrokerError], Any],
        deadline_ms: int,
    ) -> None:
        super().__init__()
        self.deadline_ms = deadline_ms
        self._acks = acks
        self._answer = answer
        self._partition = partition
        self._on_failure = on_failure

    def committed(self, error: BrokerError | None) -> None:
        if not self.done:  # its time was up
            self._finish(error or _too_few(self._partition))

    def expire(self) -> None:
        self._finish(_too_late())

    def _finish(self, error: BrokerError | None) -> None:
        self._acks.done(self)
        if error is not None:
            self._acks.refusals.count("Produce", error.code.name)
        self.complete(self._answer if error is None else self._on_failure(self._answer, error))


def _too_few(partition: Partition) -> BrokerError | None:
    """For it may have been committed while fewer replicas were left."""
    if partition.in_sync_replicas < partition.min_in_sync_replicas:
        return BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return None


def _too_late() -> BrokerError:
    return BrokerError(ErrorCode.REQUEST_TIMED_OUT, "not all in-sync replicas have it yet")

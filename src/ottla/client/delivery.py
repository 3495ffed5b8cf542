"""The fate of one record that was sent.

A DeliveryFuture is made for every record, hundreds of thousands per second, so it costs little until somebody waits:
no lock and no condition of its own (a `concurrent.futures.Future` has both and takes several times as long to make).
It is itself the callback that librdkafka calls with the delivery report.

Who waits registers first and looks at `_done` afterwards; the callback sets `_done` first and looks for those who wait
afterwards. So at least one of the two sees the other, and the shared lock decides who runs the callbacks.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.client.errors import ClientError, DeliveryError, TimedOutError
from ottla.client.librdkafka import logger, to_error

_REGISTRATION = threading.Lock()
"""Held for a moment when a callback is added or taken; never while one runs."""

Callback = Callable[["DeliveryFuture"], object]


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is."""

    topic: str
    partition: int
    offset: int
    """-1 with AckMode.NONE, where nobody tells."""
    timestamp: int
    """Milliseconds since 1970."""


class Tally:
    """A counter that any thread may add to. `next` on a count is atomic and costs less than a lock."""

    def __init__(self) -> None:
        self.add = itertools.count().__next__
        self._lock = threading.Lock()
        self._reads = 0

    def value(self) -> int:
        with self._lock:
            value = self.add() - self._reads
            self._reads += 1
            return value


class Outcomes:
    """How the deliveries of one producer went; `flush` and `close` ask for failures that nobody has looked at."""

    FAILURES_KEPT = 1_000

    def __init__(self) -> None:
        self.finished = Tally()
        self.failed = 0
        self._lock = threading.Lock()
        self._kept: list[DeliveryFuture] = []
        self._untold = 0

    def add_failure(self, future: "DeliveryFuture") -> None:
        with self._lock:
            self.failed += 1
            self._untold += 1
            if len(self._kept) < self.FAILURES_KEPT:
                self._kept.append(future)

    def take_unseen(self) -> tuple[int, ClientError | None]:
        """How many failed since the last call without anybody looking, and the first one's reason."""
        with self._lock:
            kept, self._kept, count, self._untold = self._kept, [], self._untold, 0
        unseen = [future for future in kept if not future.seen]
        beyond = count - len(kept)  # not kept, so nobody knows whether they were seen: tell
        return (len(unseen) + beyond, unseen[0].peek_error() if unseen else None)


class DeliveryFuture:
    """What `send` returns: `.result(timeout)`, `.add_done_callback(f)`, `.done()`, or `await` it."""

    __slots__ = ("_callbacks", "_done", "_error", "_offset", "_outcomes", "_partition", "_timestamp", "seen", "topic")

    def __init__(self, topic: str, outcomes: Outcomes) -> None:
        self.topic = topic
        self.seen = False
        """Whether anybody has asked how it went."""
        self._outcomes = outcomes
        self._callbacks: list[Callback] | None = None
        self._error: Any = None
        self._done = False

    def __call__(self, error: Any, message: Any) -> None:
        """librdkafka's delivery report, in the thread that polls."""
        if error is None:
            # Taken out here, since the message holds a copy of the record's bytes.
            self.acknowledge(message.partition(), message.offset(), message.timestamp()[1])
        else:
            self.refuse(error)

    def acknowledge(self, partition: int, offset: int | None, timestamp: int) -> None:
        self._partition = partition
        self._offset = offset
        self._timestamp = timestamp
        self._finish()

    def refuse(self, error: Any) -> None:
        """`error` is librdkafka's, or one of ours."""
        self._error = error
        self._outcomes.add_failure(self)
        self._finish()

    def _finish(self) -> None:
        self._done = True
        self._outcomes.finished.add()
        if self._callbacks is not None:
            self._run_callbacks()

    def done(self) -> bool:
        return self._done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement. Raises DeliveryError, or TimedOutError if it is still not known."""
        if not self._done and not self._wait(timeout):
            raise TimedOutError(
                f"no acknowledgement within {timeout} s; the record is still being sent", retriable=True
            )
        self.seen = True
        if self._error is not None:
            raise self._make_error()
        # librdkafka does not know the offset where the broker sends no answer.
        return RecordMetadata(
            self.topic, self._partition, -1 if self._offset is None else self._offset, self._timestamp
        )

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """What `result` would raise, or None if the record was acknowledged."""
        try:
            self.result(timeout)
        except DeliveryError as error:
            return error
        return None

    def peek_error(self) -> ClientError | None:
        """The error without counting as having looked."""
        return self._make_error() if self._error is not None else None

    def add_done_callback(self, callback: Callback) -> None:
        """Call `callback(future)` when it is done, at once if it is: in the producer's thread, so be quick."""
        with _REGISTRATION:
            if self._callbacks is None:
                self._callbacks = []
            self._callbacks.append(callback)
        if self._done:
            self._run_callbacks()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._done:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self.add_done_callback(lambda _: _wake(loop, waiter))
            yield from waiter
        return self.result(0)

    def _wait(self, timeout: float | None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        self.add_done_callback(lambda _: waiter.release())
        return waiter.acquire(timeout=-1 if timeout is None else timeout)

    def _run_callbacks(self) -> None:
        with _REGISTRATION:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            try:
                callback(self)
            except Exception:
                logger.exception("a callback of a delivery failed")

    def _make_error(self) -> DeliveryError:
        if isinstance(self._error, DeliveryError):
            return self._error
        error = to_error(self._error, f"a record for {self.topic} was not delivered", DeliveryError)
        assert isinstance(error, DeliveryError)
        return error

    def __repr__(self) -> str:
        state = "failed" if self._error is not None else "done" if self._done else "pending"
        return f"<DeliveryFuture {self.topic} {state}>"


def _wake(loop: asyncio.AbstractEventLoop, waiter: "asyncio.Future[None]") -> None:
    try:
        loop.call_soon_threadsafe(_resolve, waiter)
    except RuntimeError:  # the loop was closed: nobody waits any more
        logger.debug("a delivery came after its event loop was closed")


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)

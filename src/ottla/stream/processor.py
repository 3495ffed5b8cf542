"""`process`: sessions, one after the other, until somebody stops it.

A session that ends by something that passes (no broker answers, a transaction took too long) is followed by a new one,
after a wait. It begins where the last committed transaction left off, whatever had become of the others.
"""

import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ottla.client.admin import Admin
from ottla.client.errors import (
    ClientError,
    ProducerFencedError,
    TimedOutError,
    TopicExistsError,
    TransactionError,
    UnreachableError,
)
from ottla.client.serialization import Deserializer, Serializer
from ottla.client.settings import AdminConfig, Servers, require
from ottla.stream.dead_letter import default_topic
from ottla.stream.retries import Retries
from ottla.stream.session import LETTER_BYTES_MAX, POLL_MS, Function, Processed, Session, Stream

__all__ = ["Processed", "process"]

logger = logging.getLogger("ottla.stream")

BY_GROUP = "<by group>"


def process(
    input_topic: str | Iterable[str],
    output_topic: str | None,
    fn: Function,
    *,
    group: str,
    bootstrap_servers: Servers = "localhost:9092",
    instance: str | None = None,
    attempts: int = 5,
    backoff_ms: int = 100,
    backoff_max_ms: int = 10_000,
    dead_letter_topic: str | None = BY_GROUP,
    batch_records: int = 500,
    batch_bytes: int = 4 * 1024 * 1024,
    transaction_timeout_ms: int = 30_000,
    session_timeout_ms: int = 10_000,
    idle_ms: int | None = None,
    stop: threading.Event | None = None,
    value_deserializer: Deserializer | None = None,
    value_serializer: Serializer | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Processed:
    """Call `fn(message)` for every record of the input and write what it returns (see `ottla.stream.output`), exactly
    once. Returns after SIGINT or SIGTERM (in the main thread), when `stop` is set, or when nothing came for `idle_ms`.

    `group`: programs with the same group share the work.
    `instance`: the name of this one, the same after a restart and different from the others'. With it a program that
        was killed goes on at once; without it, after `session_timeout_ms` and `transaction_timeout_ms`.
    `attempts`, `backoff_ms`, `backoff_max_ms`: a record for which `fn` raises is tried again. Those behind it wait.
    `dead_letter_topic`: where it goes after that; `<input>.<group>.dlq`, unless told otherwise. None: nowhere, its
        exception ends `process`.
    """
    inputs = (input_topic,) if isinstance(input_topic, str) else tuple(input_topic)
    require(bool(inputs), "there is no input topic")
    require(attempts > 0, "attempts must be positive")
    require(batch_records > 0, "batch_records must be positive")
    letters = default_topic(inputs[0], group) if dead_letter_topic == BY_GROUP else dead_letter_topic
    stream = Stream(
        inputs=inputs,
        output=output_topic,
        function=fn,
        group=group,
        servers=bootstrap_servers,
        instance=instance,
        producer_id=f"{group}-{instance or uuid.uuid4().hex}",
        dead_letters=letters,
        retries=Retries(attempts=attempts, backoff_ms=backoff_ms, backoff_max_ms=backoff_max_ms),
        batch_records=batch_records,
        batch_bytes=batch_bytes,
        transaction_timeout_ms=transaction_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        idle_ms=idle_ms,
        value_deserializer=value_deserializer,
        value_serializer=value_serializer,
        extra=dict(extra or {}),
    )
    with _stopped_by_signals() as signalled:
        return _run(stream, lambda: signalled() or (stop is not None and stop.is_set()))


def _run(stream: Stream, stopping: Callable[[], bool]) -> Processed:
    total = Processed()
    failures = 0
    while not stopping():
        done_before = total.records
        try:
            _make_topics(stream)
            with stream.producer() as producer, stream.consumer() as consumer:
                Session(stream, producer, consumer, stopping).run(total)
            return total
        except ClientError as failure:
            if not _passes(failure, stream):
                raise
            failures = 1 if total.records > done_before else failures + 1
            logger.warning("a stream starts again: %s", failure)
            _wait(stream.retries.wait_ms(failures), stopping)
    return total


def _passes(failure: ClientError, stream: Stream) -> bool:
    """Whether a new session may do better. A fenced one with a name of its own was replaced by its successor; a name
    that was made up is known to nobody, so the cluster has ended a transaction that took too long."""
    if isinstance(failure, ProducerFencedError):
        return stream.instance is None
    return failure.retriable or isinstance(failure, TransactionError | TimedOutError | UnreachableError)


def _make_topics(stream: Stream) -> None:
    """Those that are missing among the ones that are written to."""
    config = AdminConfig(bootstrap_servers=stream.servers, extra=stream.extra)
    with Admin(config) as admin:
        for name, settings in (
            (stream.output, {}),
            (stream.dead_letters, {"max.message.bytes": str(LETTER_BYTES_MAX)}),
        ):
            if name is None:
                continue
            try:
                admin.create_topic(name, config=settings)
            except TopicExistsError as failure:
                logger.debug("%s", failure)


def _wait(wait_ms: float, stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + wait_ms / 1000
    while not stopping() and time.monotonic() < deadline:
        time.sleep(POLL_MS / 1000)


@contextmanager
def _stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM ask to stop; a second one has its usual effect."""
    caught: list[int] = []
    previous: dict[int, Any] = {}

    def restore() -> None:
        while previous:
            number, handler = previous.popitem()
            signal.signal(number, handler)

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        restore()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, catch)
    try:
        yield lambda: bool(caught)
    finally:
        restore()

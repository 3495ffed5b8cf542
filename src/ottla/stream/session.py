"""One producer and one consumer, and batches between them until somebody stops it or one of the two is of no use.

A batch is processed first and written afterwards: one transaction holds the outputs and the offsets of what they were
made of. If the group takes partitions away meanwhile, or the transaction is aborted, nothing of the batch was visible;
what is still ours of it is read again.

While a function takes its time, or an attempt waits for the next, the consumer is polled with everything paused, so
that the group doesn't take the program for dead.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ottla.client.consumer import Consumer
from ottla.client.errors import CommitFailedError, TransactionAbortedError
from ottla.client.message import Message
from ottla.client.producer import Producer
from ottla.client.serialization import Deserializer, Serializer
from ottla.client.settings import ConsumerConfig, IsolationLevel, OffsetResetPolicy, ProducerConfig, Servers
from ottla.errors import ErrorCode
from ottla.stream.dead_letter import dead_letter
from ottla.stream.output import Output, Reject, in_bytes, outputs_of, size_of
from ottla.stream.retries import Retries
from ottla.types import TopicPartition

logger = logging.getLogger("ottla.stream")

POLL_MS = 100
"""How long a signal may go unnoticed."""
KEEP_ALIVE_S = 1.0
"""How long a batch may take before the consumer is polled in between."""
LETTER_BYTES_MAX = 2 * 1024 * 1024
"""A dead letter is larger than the record in it."""
ABORTS_MAX = 20
"""So many transactions in a row that were aborted: not the weather, but something that won't pass."""

Function = Callable[[Message], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What `process` was told."""

    inputs: tuple[str, ...]
    output: str | None
    function: Function
    group: str
    servers: Servers
    instance: str | None
    producer_id: str
    dead_letters: str | None
    retries: Retries
    batch_records: int
    batch_bytes: int
    transaction_timeout_ms: int
    session_timeout_ms: int
    idle_ms: int | None
    value_deserializer: Deserializer | None
    value_serializer: Serializer | None
    extra: dict[str, Any]

    def producer(self) -> Producer:
        return Producer(
            ProducerConfig(
                bootstrap_servers=self.servers,
                client_id=f"ottla-stream-{self.group}",
                transactional_id=self.producer_id,
                transaction_timeout_ms=self.transaction_timeout_ms,
                linger_ms=1,
                extra={"message.max.bytes": LETTER_BYTES_MAX, **self.extra},
            )
        )

    def consumer(self) -> Consumer:
        return Consumer(
            ConsumerConfig(
                bootstrap_servers=self.servers,
                client_id=f"ottla-stream-{self.group}",
                group_id=self.group,
                group_instance_id=self.instance,
                auto_offset_reset=OffsetResetPolicy.EARLIEST,
                enable_auto_commit=False,
                isolation_level=IsolationLevel.READ_COMMITTED,
                max_poll_records=self.batch_records,
                session_timeout_ms=self.session_timeout_ms,
                extra={"queued.max.messages.kbytes": 16_384, **self.extra},
            )
        )


@dataclass(slots=True)
class Processed:
    """What was done, and is committed."""

    records: int = 0
    outputs: int = 0
    dead_letters: int = 0


@dataclass(slots=True)
class Batch:
    """What goes into one transaction."""

    outputs: list[Output] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    size_bytes: int = 0
    counts: Processed = field(default_factory=Processed)

    def add(self, message: Message, outputs: Sequence[Output], *, dead: bool) -> None:
        self.outputs += outputs
        self.size_bytes += sum(map(size_of, outputs))
        self.offsets[message.topic_partition] = message.offset + 1
        self.counts.records += 1
        self.counts.dead_letters += dead
        self.counts.outputs += 0 if dead else len(outputs)


class StartOverError(Exception):
    """Nothing of the batch was written: forget it, and read again what of it is still ours."""


class StoppingError(Exception):
    """Somebody wants us to end, and the record at hand has to wait for the next attempt."""


class Session:
    def __init__(self, stream: Stream, producer: Producer, consumer: Consumer, stopping: Callable[[], bool]) -> None:
        self._stream = stream
        self._producer = producer
        self._consumer = consumer
        self._stopping = stopping
        self._revoked = False
        self._pending: deque[Message] = deque()
        self._polled = time.monotonic()
        self._aborted = 0

    def run(self, total: Processed) -> None:
        """Returns when it shall stop, or nothing came for `idle_ms`. `total` is added to as transactions end."""
        self._consumer.subscribe(self._stream.inputs, on_revoke=self._on_revoke)
        last = time.monotonic()
        while not self._stopping():
            messages = self._poll()
            if messages:
                self._process(messages, total)
                last = time.monotonic()
            elif self._stream.idle_ms is not None and (time.monotonic() - last) * 1000 >= self._stream.idle_ms:
                return

    def _poll(self, timeout_ms: float = POLL_MS) -> list[Message]:
        messages = self._consumer.poll(timeout_ms)
        self._polled = time.monotonic()
        return messages

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._revoked = True

    # A batch

    def _process(self, messages: list[Message], total: Processed) -> None:
        self._revoked = False
        self._pending = deque(messages)
        uncommitted: list[Message] = []
        try:
            while self._pending and not self._stopping():
                uncommitted = []
                batch = self._work(uncommitted)
                self._commit(batch)
                _add(total, batch.counts)
        except StartOverError:
            self._consumer.rewind([*uncommitted, *self._pending])
        except StoppingError:
            logger.debug("stopped while a record waited for its next attempt")

    def _work(self, taken: list[Message]) -> Batch:
        """As many of the pending as go into one transaction."""
        batch = Batch()
        while self._pending and batch.size_bytes < self._stream.batch_bytes and not self._stopping():
            message = self._pending.popleft()
            taken.append(message)
            try:
                outputs, dead = self._outputs(message)
            except StoppingError:
                if batch.offsets:
                    return batch
                raise
            batch.add(message, outputs, dead=dead)
            if time.monotonic() - self._polled > KEEP_ALIVE_S:
                self._wait(0)
        return batch

    def _commit(self, batch: Batch) -> None:
        if not batch.offsets:
            return
        try:
            with self._producer.transaction():
                for output in batch.outputs:
                    self._producer.send(
                        output.topic or "",
                        output.value,
                        output.key,
                        output.headers,
                        output.partition,
                        output.timestamp_ms,
                    )
                self._producer.send_offsets(self._consumer, batch.offsets)
        except (TransactionAbortedError, CommitFailedError) as failure:
            if failure.code is ErrorCode.FENCED_INSTANCE_ID or self._aborted >= ABORTS_MAX:
                raise
            self._aborted += 1
            logger.info("a batch is done again: %s", failure)
            self._wait(self._stream.retries.wait_ms(self._aborted))
            raise StartOverError from failure
        self._aborted = 0

    # A record

    def _outputs(self, message: Message) -> tuple[list[Output], bool]:
        """What is to be written for it, and whether that is a dead letter. Tries as often as `retries` allow."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return list(self._call(message)), False
            except Exception as failure:
                if isinstance(failure, Reject) or attempt >= self._stream.retries.attempts:
                    return [self._dead_letter(message, attempt, failure)], True
                logger.info("attempt %d of %s at %d failed: %r", attempt, *_place(message), failure)
            self._wait(self._stream.retries.wait_ms(attempt))
            if self._stopping():
                raise StoppingError

    def _call(self, message: Message) -> Iterator[Output]:
        """A generator's own work happens in here as well."""
        given = self._deserialized(message)
        for output in outputs_of(self._stream.function(given), given):
            yield in_bytes(output, self._stream.value_serializer, self._stream.output)

    def _deserialized(self, message: Message) -> Message:
        deserializer = self._stream.value_deserializer
        if deserializer is None or message.value is None:
            return message
        try:
            value = deserializer(message.value)
        except Exception as failure:
            raise Reject(f"the value can't be deserialized: {failure}") from failure
        at = message.topic_partition
        return Message(*at, message.offset, message.timestamp, message.key, value, message.headers)

    def _dead_letter(self, message: Message, attempts: int, failure: Exception) -> Output:
        logger.warning("%s at %d is a dead letter after %d attempts: %r", *_place(message), attempts, failure)
        if self._stream.dead_letters is None:
            raise failure
        return dead_letter(
            message,
            self._stream.dead_letters,
            group=self._stream.group,
            deliveries=attempts,
            error=failure,
            now_ms=int(time.time() * 1000),
        )

    # Waiting

    def _wait(self, wait_ms: float) -> None:
        """Stay in the group for so long, at least for one poll. StartOverError if it has taken partitions away."""
        deadline = time.monotonic() + wait_ms / 1000
        with self._paused():
            while True:
                self._pending += self._poll(min(POLL_MS, max(0.0, deadline - time.monotonic()) * 1000))
                if self._revoked or self._stopping() or time.monotonic() >= deadline:
                    break
        if self._revoked:
            raise StartOverError

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self._consumer.pause()
        try:
            yield
        finally:
            self._consumer.resume()


def _place(message: Message) -> tuple[TopicPartition, int]:
    return message.topic_partition, message.offset


def _add(total: Processed, counts: Processed) -> None:
    total.records += counts.records
    total.outputs += counts.outputs
    total.dead_letters += counts.dead_letters

"""Sending records.

`send` only puts a record into librdkafka's buffer and returns a future; librdkafka's threads batch, compress, send and
repeat, and one thread of ours serves the delivery reports. A full buffer makes `send` wait, for `max_block_ms` at most:
nothing is ever dropped. A Producer may be shared by any number of threads, but not by forked processes.

Life cycle: made → started (by `start`, a `with` block or the first `send`) → closed. `close` waits for every record and
raises if one could not be delivered and nobody has been told. A producer that is forgotten is flushed when the program
ends.

With a `transactional_id` records are sent in transactions (`ottla.client.transaction`), one at a time, and `start`
waits until the cluster has ended whatever an earlier producer of that id had left open, and fenced it.
"""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as RawProducer

from ottla.client.cluster import Offsets
from ottla.client.consumer import Consumer
from ottla.client.delivery import DeliveryFuture, Outcomes, Tally
from ottla.client.errors import BufferFullError, ClientError, ClosedError, TransactionError, UndeliveredError
from ottla.client.forks import forks
from ottla.client.librdkafka import logger, on_error, to_error, translated
from ottla.client.producer_metrics import ProducerMetrics, metrics_from
from ottla.client.serialization import serialized, to_bytes
from ottla.client.settings import ProducerConfig, Servers
from ottla.client.transaction import Transaction, call_until, to_transaction_error
from ottla.errors import ConfigError

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
Record = tuple[str, bytes | None, bytes | None, int, Mapping[str, Any]]
"""Topic, value, key, partition (-1: any), and what else `produce` is to be told."""

_NO_OPTIONS: Mapping[str, Any] = {}

POLL_S = 0.05
"""How long one round of the serving thread waits: the time `close` may need to end it."""
SLICE_S = 0.2
"""Waiting is cut into slices, since librdkafka does not notice Ctrl-C while it waits."""
LATE_FLUSH_S = 5.0
"""How long a record has that was sent at the moment of closing."""
EXIT_FLUSH_S = 10.0
"""How long the end of the program may wait for a producer that nobody closed."""


class Producer:
    """See the head of the module. Usable as a context manager."""

    def __init__(self, config: ProducerConfig | None = None, *, bootstrap_servers: Servers | None = None) -> None:
        if config is None:
            config = ProducerConfig(bootstrap_servers=bootstrap_servers or "localhost:9092")
        self.config = config
        self._key_serializer = config.key_serializer or to_bytes
        self._value_serializer = config.value_serializer or to_bytes
        self.outcomes = Outcomes()
        self._taken = Tally()
        self._statistics: deque[str] = deque(maxlen=1)
        self._lock = threading.Lock()
        self._generation = forks.generation
        self._closed = False
        self._close_ended = threading.Event()
        self._raw: Any = None

    # Life cycle

    def start(self) -> Self:
        """Make ready to send. Connects in the background, so an unreachable cluster shows when something is sent."""
        with self._lock:
            self._require_usable()
            if self._raw is None:
                self._start()
        return self

    def _start(self) -> None:
        settings = {**self.config.librdkafka(), "error_cb": on_error, "stats_cb": self._statistics.append}
        with translated("starting a producer"):
            raw = RawProducer(settings, logger=logger)
        if self.config.transactional_id is not None:
            call_until(self._patience(), f"starting as {self.config.transactional_id}", raw.init_transactions)
        self._server = _Server(raw)
        # The finalizer must not know `self`: it would keep it alive.
        self._at_exit = weakref.finalize(self, _flush_forgotten, raw, self._server, os.getpid())
        self._raw = raw

    def close(self, timeout: float | None = None) -> None:
        """Send what is waiting, then stop. After `timeout` seconds what is left is given up and reported."""
        with self._lock:
            if self._closed or self._raw is None:
                self._closed = True
                return
            self._closed = True  # from here on `send` refuses; see `_finish_late` for one that was under way
        try:
            flush(self._raw, self.__len__, timeout)
            given_up = len(self)
            if given_up:
                give_up(self._raw)
            self._server.stop()
            self._at_exit.detach()
        finally:
            self._close_ended.set()
        self._raw = None  # librdkafka's threads and connections end with the last who knows of it
        self._raise_unseen(given_up=given_up)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except UndeliveredError as undelivered:
            if error is None:
                raise
            logger.error("%s", undelivered)  # the error that ended the block is the one to be seen

    # Sending

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> DeliveryFuture:
        """Put a record into the buffer; the future tells where it was written, or that it was not.

        Waits while the buffer is full. The topic is made by the broker if it is missing and may be made.
        """
        record = self.record(topic, value, key, headers, partition, timestamp_ms)
        future = DeliveryFuture(topic, self.outcomes)
        if not self.offer(record, future):
            self._offer_until_there_is_room(record, future)
        return future

    def record(
        self, topic: str, value: Any, key: Any, headers: Headers | None, partition: int | None, timestamp_ms: int | None
    ) -> Record:
        """What `send` was given, as librdkafka takes it."""
        if self._closed or self._raw is None or self._generation != forks.generation:
            self.start()
        if type(value) is not bytes or self._value_serializer is not to_bytes:
            value = serialized(self._value_serializer, value, "value")
        if key is not None and (type(key) is not bytes or self._key_serializer is not to_bytes):
            key = serialized(self._key_serializer, key, "key")
        options = _NO_OPTIONS if headers is None and timestamp_ms is None else _options(headers, timestamp_ms)
        return topic, value, key, -1 if partition is None else partition, options

    def offer(self, record: Record, future: DeliveryFuture) -> bool:
        """Put a record into the buffer, unless it is full."""
        topic, value, key, partition, options = record
        raw = self._raw
        if raw is None:
            raise ClosedError("the producer was closed")
        try:
            raw.produce(topic, value, key, partition, future, **options)
        except BufferError:
            return False
        except KafkaException as failure:
            raise self._refusal(failure.args[0], topic) from failure
        self._taken.add()
        if self._closed:
            self._finish_late(raw, future)
        return True

    def _offer_until_there_is_room(self, record: Record, future: DeliveryFuture) -> None:
        """Serve delivery reports, which makes room, and try again."""
        deadline = time.monotonic() + self.config.max_block_ms / 1000
        while (left := deadline - time.monotonic()) > 0:
            if (raw := self._raw) is not None:
                serve(raw.poll, min(left, 0.01))
            if self.offer(record, future):
                return
        raise self.buffer_full()

    def buffer_full(self) -> BufferFullError:
        return BufferFullError(
            f"the send buffer stayed full for {self.config.max_block_ms} ms: {len(self)} records wait",
            retriable=True,
        )

    def _refusal(self, error: Any, topic: str) -> ClientError:
        doing = f"sending to {topic}"
        if self.config.transactional_id is None:
            return to_error(error, doing)
        if error.code() == KafkaError._STATE and not error.fatal():
            return TransactionError(f"{doing}: no transaction is open; use `with producer.transaction()`")
        return to_transaction_error(error, doing)

    def _finish_late(self, raw: Any, future: DeliveryFuture) -> None:
        """`close` ran while `send` was under way, and may have missed its record: see it through here."""
        self._close_ended.wait()
        if not future.done():
            flush(raw, self.__len__, LATE_FLUSH_S)
        if not future.done():
            give_up(raw)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until nothing is waiting to be sent. Raises UndeliveredError if something still is after `timeout`
        seconds, or if a record failed since the last flush and nobody has looked at its future."""
        raw = self._raw
        if raw is not None:
            flush(raw, self.__len__, timeout)
            self._raise_unseen(waiting=len(self))

    # Transactions

    def transaction(self) -> Transaction:
        """`with producer.transaction(): …`: everything sent inside becomes visible at its end, or, on an exception,
        nothing of it ever does. One at a time."""
        self.start()
        self.require_transactional()
        return Transaction(self._raw, self.outcomes, self.config.max_block_ms / 1000)

    def send_offsets(self, consumer: Consumer, offsets: Offsets | None = None) -> None:
        """Let the transaction also store where the consumer's group goes on: after all that the consumer has handed
        out, or at `offsets`. The group then moves if, and only if, the transaction is committed.

        The consumer has `enable_auto_commit=False`, and is not polled between what was read and this call.
        """
        self.require_transactional()
        self.send_offsets_of(*consumer.transactional_offsets(offsets))

    def send_offsets_of(self, raw_offsets: Sequence[Any], member: Any) -> None:
        """The same with what `Consumer.transactional_offsets` has returned."""
        self.require_transactional()
        raw = self._raw
        if raw is None:
            raise TransactionError("no transaction is open; use `with producer.transaction()`")
        if raw_offsets:
            call_until(
                self._patience(),
                "sending offsets to a transaction",
                lambda timeout_s: raw.send_offsets_to_transaction(raw_offsets, member, timeout_s),
            )

    def require_transactional(self) -> None:
        """Raises ConfigError if it has no transactional id."""
        if self.config.transactional_id is None:
            raise ConfigError("transactions need a transactional_id in the ProducerConfig")

    def _patience(self) -> float:
        return time.monotonic() + self.config.max_block_ms / 1000

    # Looking at it

    def __len__(self) -> int:
        """Records that wait to be sent or acknowledged."""
        return max(self._taken.value() - self.outcomes.finished.value(), 0)

    def metrics(self) -> ProducerMetrics:
        """Counts of this moment; batch sizes and latencies as of the last `metrics_interval_ms`."""
        waiting = len(self)
        statistics = self._statistics[-1] if self._statistics else None
        return metrics_from(statistics, sent=self._taken.value(), failed=self.outcomes.failed, waiting=waiting)

    def partitions_of(self, topic: str, timeout: float = 10.0) -> int:
        """How many partitions a topic has; makes it, if it is missing and the broker may make topics."""
        self.start()
        with translated(f"looking up {topic}"):
            found = self._raw.list_topics(topic, timeout).topics[topic]
        if found.error is not None:
            raise to_error(found.error, f"looking up {topic}")
        return len(found.partitions)

    # Inside

    def _require_usable(self) -> None:
        if self._closed:
            raise ClosedError("the producer was closed")
        if self._generation != forks.generation:
            raise ClosedError("this producer was made before a fork; make one in each process")

    def _raise_unseen(self, *, waiting: int = 0, given_up: int = 0) -> None:
        failed, reason = self.outcomes.take_unseen()
        if not (failed or waiting):
            return
        parts = [f"{waiting} records are still waiting"] if waiting else []
        if given_up:
            parts.append(f"{given_up} records were given up")
        elif failed:
            parts.append(f"{failed} records were not delivered")
        raise UndeliveredError("; ".join(parts) + (f" ({reason})" if reason else ""), failed=failed, waiting=waiting)


class _Server:
    """The thread that serves delivery reports, errors and statistics. It knows the raw producer only, so that a
    Producer that nobody uses any more can be collected."""

    def __init__(self, raw: Any) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(raw,), name="ottla-producer", daemon=True)
        self._thread.start()

    def _serve(self, raw: Any) -> None:
        while not self._stopping.is_set():
            serve(raw.poll, POLL_S)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def serve(call: Callable[[float], object], timeout_s: float) -> None:
    """Poll or flush. What raises here is a fatal error (the producer was fenced), which every record's future and the
    next call of the program are told as well."""
    try:
        call(timeout_s)
    except KafkaException as failure:
        on_error(failure.args[0])


def flush(raw: Any, waiting: Callable[[], int], timeout: float | None) -> None:
    """Send what waits, without linger, until nothing does or the time is over.

    librdkafka wakes its sending threads once, when a flush begins; in slices, those that were not connected yet are
    woken again.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while waiting():
        left = SLICE_S if deadline is None else min(SLICE_S, deadline - time.monotonic())
        if left <= 0:
            return
        serve(raw.flush, left)


def give_up(raw: Any) -> None:
    """Let every record that is still waiting fail, so that whoever waits for it is told."""
    raw.purge()
    serve(raw.flush, SLICE_S)


def _flush_forgotten(raw: Any, server: _Server, pid: int) -> None:
    """Of a producer that nobody closed: at its collection or at the end of the program."""
    if pid != os.getpid():
        return
    flush(raw, raw.__len__, EXIT_FLUSH_S)
    if left := len(raw):
        logger.error("a producer was not closed, and %d of its records could not be delivered", left)
    server.stop()


def _options(headers: Headers | None, timestamp_ms: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if headers is not None:
        options["headers"] = list(headers.items() if isinstance(headers, Mapping) else headers)
    if timestamp_ms is not None:
        options["timestamp"] = timestamp_ms
    return options

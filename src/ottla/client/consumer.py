"""Reading records, alone or in a group.

`poll` hands out what has come. A record counts as done when the program comes back for more (the next `poll`, the next
turn of a loop, a clean `close`), and only what is done is committed, in the background (`enable_auto_commit`) or by
`commit()`. So a crash repeats records and never skips one: at least once. A `with` block that ends by an exception
does not count its last records as done.

A Consumer is meant for one thread; calls from another wait for those under way, and `wakeup` and `close` end a `poll`
that waits. Callbacks of a rebalance run inside `poll`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import TopicPartition as RawPartition

from ottla.client.cluster import OffsetAt, Offsets, PartitionLag
from ottla.client.consumer_buffer import ConsumerBuffer
from ottla.client.consumer_starts import with_starts
from ottla.client.errors import ClientError, ClosedError, CommitFailedError, OffsetOutOfRangeError
from ottla.client.forks import forks
from ottla.client.lag import lag_of
from ottla.client.librdkafka import logger, on_error, to_error, translated
from ottla.client.message import Message
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy, Servers
from ottla.errors import ConfigError
from ottla.types import TopicPartition

Partition = tuple[str, int]
OnRebalance = Callable[["Consumer", list[TopicPartition]], object]

SLICE_S = 0.1
"""Waiting is cut into slices, since librdkafka notices neither Ctrl-C nor `wakeup` while it waits."""
SEEK_PATIENCE_S = 5.0

_NEWS = frozenset(
    (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._PARTITION_EOF,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
)
"""What librdkafka tells and then mends by itself: it reconnects, rejoins, or finds the topic when it is made."""


class Consumer:
    """See the head of the module. Usable as a context manager and in a `for` loop."""

    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        bootstrap_servers: Servers | None = None,
        group_id: str | None = None,
    ) -> None:
        if config is None:
            config = ConsumerConfig(bootstrap_servers=bootstrap_servers or "localhost:9092", group_id=group_id)
        self.config = config
        self._commits_alone = config.enable_auto_commit and config.group_id is not None
        self._generation = forks.generation
        self._lock = threading.RLock()
        self._closing = self._closed = False
        self._woken = False
        self._subscribed = False
        self._handed_out: Sequence[Message] = ()
        """What the program got last. It is done when the program comes back."""
        self._sought: dict[TopicPartition, int] = {}
        self._revoked_now: set[TopicPartition] = set()
        """Partitions that were lost while librdkafka was gathering records."""
        self._assigning: dict[TopicPartition, int] | None = None
        """While `on_assign` runs: where it wants to start."""
        self._buffer = ConsumerBuffer(config, _raise_unless_news)
        settings = {**config.librdkafka(), "error_cb": on_error, "on_commit": self._on_commit}
        with translated("making a consumer"):
            self._raw = RawConsumer(settings, logger=logger)

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> None:
        """Share these topics, or those whose whole name matches `pattern`, with the other members of the group.

        `on_assign(consumer, partitions)` may `seek`; `on_revoke` may `commit`, and `on_lost` (default: `on_revoke`)
        may not, since others have the partitions already. A topic that is missing is read as soon as it is made.
        """
        if self.config.group_id is None:
            raise ConfigError("subscribe needs a group_id; a consumer without a group can `assign` partitions")
        names = [topics] if isinstance(topics, str) else list(topics)
        if pattern is not None:
            names.append(pattern if pattern.startswith("^") else f"^({pattern})$")
        with self._using(f"subscribing to {', '.join(names)}") as raw:
            self._subscribed = True
            raw.subscribe(
                names,
                on_assign=lambda _, partitions: self._assigned(on_assign, partitions),
                on_revoke=lambda _, partitions: self._revoked(on_revoke, partitions),
                on_lost=lambda _, partitions: self._revoked(on_lost or on_revoke, partitions),
            )

    def unsubscribe(self) -> None:
        with self._using("unsubscribing") as raw:
            self._mark_done()
            self._buffer.clear()
            self._subscribed = False
            raw.unsubscribe()

    def assign(self, partitions: Iterable[Partition] | Offsets) -> None:
        """Read exactly these partitions, without a group's say; a mapping tells where to start in each.

        Where it doesn't tell: at the group's committed offset, or as `auto_offset_reset` says.
        """
        if isinstance(partitions, Mapping):
            wanted = [RawPartition(topic, partition, offset) for (topic, partition), offset in partitions.items()]
        else:
            wanted = [RawPartition(topic, partition) for topic, partition in partitions]
        with self._using("assigning partitions") as raw:
            self._mark_done()
            self._buffer.clear()
            self._sought.clear()
            raw.assign(wanted)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now."""
        return {_at(partition) for partition in self._raw_partitions(None)}

    # Reading

    def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[Message]:
        """What has come, at once if there is something, else after waiting for at most `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        while self.fill(deadline - time.monotonic(), max_records):
            if messages := self.take(max_records):
                return messages
        return []

    def messages(self, timeout_ms: float | None = None) -> Iterator[Message]:
        """One message after the other. Ends when none came for `timeout_ms` (never, if None), or at `wakeup`."""
        self._require_open()
        while not self._closed and self.fill(float("inf") if timeout_ms is None else timeout_ms / 1000):
            yield from self.take(1)

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def wakeup(self) -> None:
        """Let the `poll` or the loop that waits in another thread, or the next one, return at once."""
        self._woken = True

    def fill(self, timeout_s: float, max_records: int | None = None) -> bool:
        """The waiting half of `poll`: True when there is something to `take`, which then does not wait.

        With nothing left to take, the program has come back for more, and all that it was given is done.
        """
        self._require_open()
        if self._buffer:
            return True
        self._mark_done()
        return self._fetch(max_records or self.config.max_poll_records, time.monotonic() + timeout_s)

    def take(self, max_records: int | None = None) -> list[Message]:
        messages = self._buffer.take(max_records or self.config.max_poll_records)
        self._handed_out = messages or self._handed_out
        return messages

    @property
    def has_buffered(self) -> bool:
        return bool(self._buffer)

    def _fetch(self, limit: int, deadline: float) -> bool:
        """Fill the buffer; False: the time was over, or somebody called `wakeup`."""
        while not self._woken:
            with self._using("polling") as raw:
                raw_messages = self._gather(raw, limit)
                left = deadline - time.monotonic()
                if not raw_messages and left > 0:
                    # `consume` waits until it has as many as asked for; `poll` returns with the first.
                    first = raw.poll(min(left, SLICE_S))
                    raw_messages = [] if first is None else self._gather(raw, limit - 1, first)
            if raw_messages:
                self._buffer.add(raw_messages)
                return True
            if left <= 0:
                return False
        self._woken = False
        return False

    def _gather(self, raw: Any, limit: int, *first: Any) -> list[Any]:
        """What librdkafka has at hand, without what a rebalance takes away meanwhile: another may have it already."""
        self._revoked_now.clear()
        raw_messages = [*first, *raw.consume(limit, 0)] if limit else list(first)
        if self._revoked_now:
            lost = self._revoked_now
            raw_messages = [got for got in raw_messages if TopicPartition(got.topic(), got.partition()) not in lost]
        return raw_messages

    # Offsets

    def commit(self, offsets: Offsets | None = None) -> None:
        """Store where the group goes on: after everything handed out so far, or at `{(topic, partition): offset}`,
        the offset being the next one to read. Returns when it is durable; raises CommitFailedError if it is not."""
        wanted = self._to_commit(offsets)
        if not wanted:
            return
        with self._using("committing offsets", CommitFailedError) as raw:
            answers = raw.commit(offsets=wanted, asynchronous=False)
        for answer in answers:
            if answer.error is not None:
                raise to_error(answer.error, f"committing {answer.topic}-{answer.partition}", CommitFailedError)

    def commit_async(self, offsets: Offsets | None = None) -> None:
        """The same without waiting; the outcome goes to `ConsumerConfig.on_commit`, called inside a later `poll`."""
        wanted = self._to_commit(offsets)
        if wanted:
            with self._using("committing offsets", CommitFailedError) as raw:
                raw.commit(offsets=wanted, asynchronous=True)

    def _to_commit(self, offsets: Offsets | None) -> list[Any]:
        if self.config.group_id is None:
            raise ConfigError("committing offsets needs a group_id")
        if offsets is None:
            return self._positions()
        return [RawPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

    def transactional_offsets(self, offsets: Offsets | None = None) -> tuple[list[Any], Any]:
        """For `Producer.send_offsets`: what `commit` would store, and who asks for it."""
        if self._commits_alone:
            raise ConfigError("offsets in a transaction need a consumer with enable_auto_commit=False")
        wanted = self._to_commit(offsets)
        with self._using("reading the group's membership") as raw:
            member = raw.consumer_group_metadata()
            # Without a member's id the group could not tell that the partitions belong to others by now.
            if self._subscribed and not raw.memberid():
                raise CommitFailedError("this consumer is not a member of its group now", retriable=True)
        return wanted, member

    def rewind(self, messages: Iterable[Message]) -> None:
        """Hand these out again, and what came after them: to be called after the transaction that they were read for
        was aborted. Those that others have, or have done, are left to them."""
        first: dict[TopicPartition, int] = {}
        for message in messages:
            at = message.topic_partition
            first[at] = min(message.offset, first.get(at, message.offset))
        self._handed_out = ()
        # A partition that was lost and came back is no longer at our messages, but where others have brought it.
        for at, done in self.committed(self.assignment() & first.keys()).items():
            self.seek(at, max(first[at], done or 0))

    def committed(self, partitions: Iterable[Partition] | None = None) -> dict[TopicPartition, int | None]:
        """The group's offsets, of all assigned partitions or of these; None where it has none."""
        wanted = self._raw_partitions(partitions)
        with self._using("reading committed offsets") as raw:
            found = raw.committed(wanted, self.config.request_timeout_ms / 1000) if wanted else []
        return {_at(answer): answer.offset if answer.offset >= 0 else None for answer in found}

    def position(self, partition: Partition) -> int | None:
        """The offset that comes next; None before the first record of a partition is known."""
        at = TopicPartition(*partition)
        with self._using("reading a position") as raw:
            if at in (waiting := self._buffer.first_offsets()):
                return waiting[at]
            [answer] = raw.position([RawPartition(*at)])
            return answer.offset if answer.offset >= 0 else self._sought.get(at)

    def _positions(self, not_done: Iterable[Message] = ()) -> list[Any]:
        """Where the program is in each partition it reads: behind librdkafka by what is still in the buffer, and by
        what was handed out but is not done."""
        waiting = self._buffer.first_offsets()
        for message in not_done:
            at = message.topic_partition
            waiting[at] = min(message.offset, waiting.get(at, message.offset))
        positions = []
        with self._using("reading positions") as raw:
            for known in raw.position(raw.assignment()):
                offset = waiting.get(_at(known), known.offset)
                if offset < 0:
                    offset = self._sought.get(_at(known), offset)
                if offset >= 0:
                    # librdkafka's own answer also has the leader epoch.
                    same = offset == known.offset
                    positions.append(known if same else RawPartition(known.topic, known.partition, offset))
        return positions

    def _mark_done(self, *, but_the_last: bool = False) -> None:
        """What was handed out is done (but the last of it, if that was not seen through): the next automatic commit
        may cover it."""
        if self._handed_out and self._commits_alone:
            with self._using("storing offsets") as raw:
                raw.store_offsets(offsets=self._positions(self._handed_out if but_the_last else ()))
        self._handed_out = ()

    # Moving

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at `offset`. Inside `on_assign` it says where to start."""
        at = TopicPartition(*partition)
        self._seek(at, offset)
        self._sought[at] = offset

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Of these partitions, or of all that are assigned."""
        for raw in self._raw_partitions(partitions or None):
            self._seek(_at(raw), OFFSET_BEGINNING)

    def seek_to_end(self, *partitions: Partition) -> None:
        for raw in self._raw_partitions(partitions or None):
            self._seek(_at(raw), OFFSET_END)

    def seek_to_time(self, timestamp: int, *partitions: Partition) -> None:
        """To the first record with this timestamp (milliseconds since 1970) or a later one; else to the end."""
        asked = self._raw_partitions(partitions or None)
        wanted = [RawPartition(partition.topic, partition.partition, timestamp) for partition in asked]
        with self._using("looking up offsets by time") as raw:
            found = raw.offsets_for_times(wanted, self.config.request_timeout_ms / 1000) if wanted else []
        for answer in found:
            self._seek(_at(answer), answer.offset if answer.offset >= 0 else OFFSET_END)

    def _seek(self, at: TopicPartition, offset: int) -> None:
        with self._lock:
            self._sought.pop(at, None)
            self._buffer.drop((at,))
            if self._assigning is not None:
                self._assigning[at] = offset
                return
        deadline = time.monotonic() + SEEK_PATIENCE_S
        while not self._try_seek(at, offset, last=time.monotonic() > deadline):
            time.sleep(0.005)  # the partition was assigned a moment ago, and librdkafka is not ready for it yet

    def _try_seek(self, at: TopicPartition, offset: int, *, last: bool) -> bool:
        with self._using(f"seeking in {at}") as raw:
            try:
                raw.seek(RawPartition(at.topic, at.partition, offset))
            except KafkaException as failure:
                starting = failure.args[0].code() == KafkaError._STATE and at in self.assignment()
                if last or not starting:
                    raise
                return False
        return True

    def pause(self, *partitions: Partition) -> None:
        """Hand out nothing of these partitions (or of all) until `resume`. The consumer stays in its group."""
        wanted = self._raw_partitions(partitions or None)
        with self._using("pausing") as raw:
            raw.pause(wanted)
        self._buffer.hold({_at(partition) for partition in wanted})

    def resume(self, *partitions: Partition) -> None:
        wanted = self._raw_partitions(partitions or None)
        with self._using("resuming") as raw:
            raw.resume(wanted)
        self._buffer.release([_at(partition) for partition in wanted])

    # Looking at it

    def lag(self) -> list[PartitionLag]:
        """How far behind the end this consumer is in each of its partitions, in records and in seconds."""
        timeout = self.config.request_timeout_ms / 1000
        ends: dict[TopicPartition, OffsetAt] = {}
        starts: dict[TopicPartition, OffsetAt] = {}
        positions = {at: self.position(at) for at in sorted(self.assignment())}
        for at in positions:
            with self._using(f"reading the ends of {at}") as raw:
                low, high = raw.get_watermark_offsets(RawPartition(*at), timeout)
            starts[at], ends[at] = OffsetAt(offset=low, timestamp=-1), OffsetAt(offset=high, timestamp=-1)
        now_ms = int(time.time() * 1000)
        return lag_of(positions, start=starts, end=ends, settings=self.config.librdkafka(), now_ms=now_ms)

    # Life cycle

    def close(self, *, last_done: bool = True) -> None:
        """Commit what is done (if that is automatic) and leave the group, whose other members then take over.

        `last_done`: whether what was handed out last counts as done.
        """
        self.wakeup()  # a thread that waits in `poll` gives way
        with self._lock:
            if self._closed or self._generation != forks.generation:
                return
            try:
                self._mark_done(but_the_last=not last_done)
            finally:
                self._closing = True
                try:
                    with translated("closing the consumer"):
                        self._raw.close()  # runs `on_revoke`, which may still commit
                finally:
                    self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(last_done=error is None)

    # Inside

    def _assigned(self, callback: OnRebalance | None, raw_partitions: list[Any]) -> None:
        self._assigning = {}
        try:
            if callback is not None:
                callback(self, [_at(raw) for raw in raw_partitions])
            chosen = self._assigning
        finally:
            self._assigning = None
        wanted = [raw for raw in raw_partitions if _at(raw) not in chosen]
        if not self._closing:  # then nothing is read any more, and librdkafka would not get an answer
            wanted = with_starts(self._raw, wanted, self.config)
        wanted += [RawPartition(*at, offset) for at, offset in chosen.items()]
        (self._raw.incremental_assign if self.config.cooperative else self._raw.assign)(wanted)

    def _revoked(self, callback: OnRebalance | None, raw_partitions: list[Any]) -> None:
        partitions = [_at(raw) for raw in raw_partitions]
        self._revoked_now.update(partitions)
        try:
            if callback is not None:
                callback(self, partitions)
        finally:
            self._buffer.drop(partitions)
            for at in partitions:
                self._sought.pop(at, None)

    def _on_commit(self, error: Any, raw_partitions: list[Any]) -> None:
        failed = error or next((raw.error for raw in raw_partitions if raw.error is not None), None)
        problem = None if failed is None else to_error(failed, "committing offsets", CommitFailedError)
        if self.config.on_commit is not None:
            self.config.on_commit({_at(raw): raw.offset for raw in raw_partitions}, problem)
        elif problem is not None:
            logger.warning("%s", problem)

    def _raw_partitions(self, partitions: Iterable[Partition] | None) -> list[Any]:
        if partitions is None:
            with self._using("reading the assignment") as raw:
                return list(raw.assignment())
        return [RawPartition(topic, partition) for topic, partition in partitions]

    @contextmanager
    def _using(self, doing: str, kind: type[ClientError] | None = None) -> Iterator[Any]:
        """librdkafka's consumer, while nobody else uses or closes it."""
        with self._lock:
            self._require_open()
            with translated(doing, kind):
                yield self._raw

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("the consumer was closed")
        if self._generation != forks.generation:
            raise ClosedError("this consumer was made before a fork; make one in each process")


def _at(raw: Any) -> TopicPartition:
    return TopicPartition(raw.topic, raw.partition)


def _raise_unless_news(error: Any) -> None:
    code = error.code()
    if code == KafkaError._AUTO_OFFSET_RESET:
        raise to_error(error, f"auto_offset_reset is {OffsetResetPolicy.NONE.name}", OffsetOutOfRangeError)
    if error.fatal() or code not in _NEWS:
        raise to_error(error, "reading")
    logger.warning("%s", error.str())

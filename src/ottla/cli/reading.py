"""Reads partitions until each has reached the place where it should stop.

A partition is done when a record at or past its stop was seen, or when its end was reached and nobody wants to wait for
more. librdkafka tells of the end of a partition by an event among the records, which also covers what has no records to
show: an empty partition, or one that ends in the markers of a transaction.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError
from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import TopicPartition as RawPartition

from ottla.cli.failures import unreachable_failure
from ottla.cli.options import now_ms
from ottla.cli.output import note
from ottla.cli.record_output import OutputRecord
from ottla.client.librdkafka import logger, to_error, translated
from ottla.client.settings import ConsumerConfig
from ottla.types import TopicPartition

POLL_S = 0.2
"""How long Ctrl-C may go unnoticed."""
SILENCE_MS_MAX = 60_000
"""Where more is known to be there, silence for so long means that nobody answers. Long enough for a rebalance."""
LATE_MS = 1_000
"""A record may arrive this much later than its timestamp says before a wait for that time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where reading ends."""

    follow: bool
    """Go on at the end of a partition, waiting for what comes."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Each partition is read up to this offset. Without --follow it is where the partition ended when reading began:
    under steady writes the end itself would never be reached."""
    until_ms: int | None = None
    """A partition is done at the first record with this timestamp or a later one."""
    max_records: int | None = None
    idle_ms: int | None = None
    """Done when no record came for so long."""

    def excludes(self, record: OutputRecord) -> bool:
        """Whether `record` is already behind the stop."""
        if self.until_ms is not None and record.timestamp_ms is not None and record.timestamp_ms >= self.until_ms:
            return True
        return record.offset >= self.ends.get(record.at, record.offset + 1)

    def is_last(self, record: OutputRecord) -> bool:
        """Whether nothing after `record` is wanted from its partition."""
        return record.offset + 1 >= self.ends.get(record.at, record.offset + 2)

    def ends_quiet(self, quiet_ms: int, current_ms: int) -> bool:
        """Whether to stop altogether after nothing came for `quiet_ms`."""
        if self.idle_ms is not None and quiet_ms >= self.idle_ms:
            return True
        return self.until_ms is not None and current_ms >= self.until_ms + LATE_MS and quiet_ms >= LATE_MS


class Reader:
    """Iterates over batches of records. An empty batch means that nothing came for a moment."""

    def __init__(self, config: ConsumerConfig, stop: Stop) -> None:
        extra = {"enable.partition.eof": True, "error_cb": self._on_error}
        self._consumer = RawConsumer({**config.librdkafka(), **extra}, logger=logger)
        self._group = config.group_id is not None
        self._stop = stop
        self._batch_max = config.max_poll_records
        self._open: set[TopicPartition] = set()
        self._assigned = False
        self._count = 0
        self._warned = False

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        with translated("reading"):
            self._consumer.assign([RawPartition(at.topic, at.partition, offset) for at, offset in offsets.items()])
        self._on_assign(self._consumer, [RawPartition(at.topic, at.partition) for at in offsets])

    def subscribe(self, topics: list[str]) -> None:
        """As a member of the group: the partitions come later, and may change."""
        with translated("joining the group"):
            self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def batches(self) -> Iterator[list[OutputRecord]]:
        """What is yielded counts as read: in a group, its offsets are committed once the next batch is asked for."""
        last_record_ms = now_ms()
        while not self._done():
            records = self._batch()
            yield records
            self._store(records)
            current_ms = now_ms()
            if records:
                last_record_ms = current_ms
                self._warned = False
            elif self._stop.ends_quiet(current_ms - last_record_ms, current_ms):
                return
            elif not self._stop.follow and current_ms - last_record_ms > SILENCE_MS_MAX:
                raise unreachable_failure(f"nothing came for {SILENCE_MS_MAX // 1_000} s")

    def close(self) -> None:
        """Commits what was read, in a group."""
        with translated("leaving"):
            self._consumer.close()

    def _done(self) -> bool:
        enough = self._stop.max_records is not None and self._count >= self._stop.max_records
        return enough or (self._assigned and not self._open)

    def _batch(self) -> list[OutputRecord]:
        wanted = self._batch_max
        if self._stop.max_records is not None:
            wanted = min(wanted, self._stop.max_records - self._count)
        with translated("reading"):
            messages = self._poll(wanted)
        records = [record for message in messages if (record := self._accept(message)) is not None]
        self._count += len(records)
        return records

    def _poll(self, wanted: int) -> list[Any]:
        """Whatever is there, at once: `consume` alone would wait for the batch to be full."""
        first = self._consumer.poll(POLL_S)
        if first is None:
            return []
        return [first, *self._consumer.consume(wanted - 1, 0)] if wanted > 1 else [first]

    def _accept(self, message: Any) -> OutputRecord | None:
        """The record, if it is wanted; and what it, or the event in its place, says about its partition."""
        error = message.error()
        if error is not None:
            self._take_event(message, error)
            return None
        record = to_record(message)
        if record.at not in self._open:
            return None
        excluded = self._stop.excludes(record)
        if excluded or self._stop.is_last(record):
            self._finish(record.at)
        return None if excluded else record

    def _take_event(self, message: Any, error: Any) -> None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise to_error(error, "reading")
        if not self._stop.follow:
            self._finish(TopicPartition(message.topic(), message.partition()))

    def _finish(self, at: TopicPartition) -> None:
        if at in self._open:
            self._open.discard(at)
            self._consumer.pause([RawPartition(at.topic, at.partition)])

    def _store(self, records: list[OutputRecord]) -> None:
        if self._group and records:
            newest = {record.at: record.offset + 1 for record in records}
            held = {TopicPartition(at.topic, at.partition) for at in self._consumer.assignment()}
            offsets = [RawPartition(at.topic, at.partition, next_) for at, next_ in newest.items() if at in held]
            self._consumer.store_offsets(offsets=offsets)

    def _on_error(self, error: Any) -> None:
        """librdkafka goes on trying; a person who waits should know that it must."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._warned:
            self._warned = True
            note("No broker answers; still trying. Ctrl-C ends.")

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self._assigned = True
        self._open.update(TopicPartition(at.topic, at.partition) for at in partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._open.difference_update(TopicPartition(at.topic, at.partition) for at in partitions)
        self._assigned = False


def to_record(message: Any) -> OutputRecord:
    kind, timestamp_ms = message.timestamp()
    return OutputRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=message.headers() or (),
    )

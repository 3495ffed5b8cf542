"""Runs a replicated state machine: appends what it decides, replays it, and answers once it is durable.

This is the one place that knows the order (see `ottla.replicated`): decide → append → replay → commit → answer. A
shard's records are replayed as soon as they are appended, so that its next decision sees them; every answer, a read's
too, waits until what it was based on is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.errors import BrokerError, ProtocolError
from ottla.ports import Clock
from ottla.protocol.records import Record, build_batch, iter_batches, read_records
from ottla.replicated import Reply, Result
from ottla.replication.partition import Partition
from ottla.runtime.committer import Committer
from ottla.runtime.timers import Deadline, Timers
from ottla.services import Deferred
from ottla.storage.log import Origin

log = logging.getLogger(__name__)

LOAD_BYTES = 1024 * 1024
"""How much of a log is read at a time when a shard is loaded."""
LOAD_RECORD_BYTES_MAX = 64 * 1024 * 1024

R = TypeVar("R")
T = TypeVar("T")


class Machine(Protocol[R]):
    """A shard, as `ottla.replicated.Shard`, with its timers."""

    def replay(self, record: R) -> None: ...

    def next_deadline_ms(self) -> int | None: ...

    def tick(self, now_ms: int) -> Result[R, Any]: ...


S = TypeVar("S", bound=Machine[Any])


class ShardRuntime(Generic[S, R]):
    def __init__(
        self,
        *,
        shard: S,
        partition: Partition,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        encode: Callable[[R], tuple[bytes | None, bytes | None]],
        decode: Callable[[bytes | None, bytes | None], R | None],
        on_lost: Callable[[], None],
        on_replayed: Callable[[], Callable[[], None]] | None = None,
    ) -> None:
        """`on_replayed` is called when records have been replayed; what it returns, when those are durable.

        `on_lost` is called when the disk failed: the shard then knows more than its log, and must be built again.
        """
        self.shard = shard
        self._partition = partition
        self._committer = committer
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._began_monotonic_ms = clock.monotonic_ms()
        self._timers = timers
        self._encode = encode
        self._decode = decode
        self._on_replayed = on_replayed
        self._on_lost = on_lost
        self._alarm: Deadline | None = None
        self._alarm_ms: int | None = None

    def call(self, decide: Callable[[Any, Deferred[Any], int], Result[R, T]]) -> Deferred[T]:
        caller: Deferred[T] = Deferred()
        now_ms = self._now_ms()
        self._carry_out(decide(self.shard, caller, now_ms), caller, now_ms)
        return caller

    def _now_ms(self) -> int:
        """The calendar's time when this began, and what has passed since: a clock that is set ends no session."""
        return self._began_ms + self._clock.monotonic_ms() - self._began_monotonic_ms

    def _carry_out(self, result: Result[R, Any], caller: Deferred[Any] | None, now_ms: int) -> None:
        replies = list(result.replies)
        if caller is not None and result.response is not None:
            replies.append(Reply(token=caller, response=result.response))
        if result.records:
            try:
                self._append(result.records, now_ms)
            except BrokerError as error:
                _refuse(replies, error)
                self._lose()
                return
        if replies:
            self._answer(replies)
        self._set_alarm()

    def _lose(self) -> None:
        """What the shard decided is not in its log: it is of no use any more."""
        self.close()
        self._on_lost()

    def _append(self, records: Sequence[R], now_ms: int) -> None:
        pairs = [self._encode(record) for record in records]
        batch = build_batch(
            [
                Record(offset=i, timestamp_ms=now_ms, key=key, value=value, headers=())
                for i, (key, value) in enumerate(pairs)
            ]
        )
        self._committer.append(self._partition, batch, now_ms=now_ms, origin=Origin.COORDINATOR)
        for record in records:
            self.shard.replay(record)
        publish = _nothing if self._on_replayed is None else self._on_replayed()
        self._committer.after_commit(publish).on_done(self._committed)

    def _committed(self, done: Deferred[Callable[[], None]]) -> None:
        if done.value is not None:
            done.value()
        else:
            self._lose()

    def _answer(self, replies: Sequence[Reply]) -> None:
        """At once if all that the shard knows is durable, otherwise after the commit that makes it so."""
        if self._partition.high_watermark >= self._partition.log.end_offset:
            _send(replies)
            return

        def committed(done: Deferred[None]) -> None:
            if done.error is None:
                _send(replies)
            else:
                _refuse(replies, done.error)

        self._committer.after_commit(None).on_done(committed)

    def _set_alarm(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms == self._alarm_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = deadline_ms
        if deadline_ms is not None:
            delay_ms = max(0, deadline_ms - self._now_ms())
            self._alarm = self._timers.after_ms(delay_ms, self._tick)

    def _tick(self) -> None:
        self._alarm = None
        self._alarm_ms = None
        now_ms = self._now_ms()
        self._carry_out(self.shard.tick(now_ms), None, now_ms)

    # Loading: the same records through the same replay.

    def load(self) -> Iterator[int]:
        """Replay the whole log, a piece at a time: yields the number of records of each piece."""
        for records in self._read_log():
            for record in records:
                self.shard.replay(record)
            yield len(records)
        if self._on_replayed is not None:
            self._on_replayed()()
        self._set_alarm()

    def _read_log(self) -> Iterator[list[R]]:
        partition = self._partition
        at = partition.log.start_offset
        while at < partition.high_watermark:
            piece = partition.log.read(at, LOAD_BYTES, upto_offset=partition.high_watermark, min_one_batch=True)
            records: list[R] = []
            for batch in iter_batches(piece):
                at = batch.last_offset + 1
                if batch.is_control:
                    continue
                for record in read_records(batch.data, max_uncompressed_bytes=LOAD_RECORD_BYTES_MAX):
                    self._decode_into(records, record)
            yield records

    def _decode_into(self, records: list[R], record: Record) -> None:
        """One record that can't be understood must not keep all others from being loaded."""
        try:
            decoded = self._decode(record.key, record.value)
        except ProtocolError as error:
            log.error("%s, offset %d is passed over: %s", self._partition.log.partition, record.offset, error)
            return
        if decoded is not None:
            records.append(decoded)

    def dismiss(self, result: Result[R, Any]) -> None:
        """Send the last answers of a shard that is given up."""
        _send(result.replies)

    def close(self) -> None:
        """No timer fires any more."""
        if self._alarm is not None:
            self._alarm.cancel()


def _nothing() -> None:
    """There is nobody to tell."""


def _send(replies: Sequence[Reply]) -> None:
    for reply in replies:
        reply.token.complete(reply.response)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made


def _refuse(replies: Sequence[Reply], error: BrokerError) -> None:
    for reply in replies:
        reply.token.fail(error)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made

"""Runs a replicated state machine: appends what it decides, replays it, and answers once it is committed.

This is the one place that knows the order (see `ottla.replicated`): decide → append → replay → commit → answer. A
shard's records are replayed as soon as they are appended, so that its next decision sees them; every answer, a read's
too, waits until what it was based on is committed. A shard whose records did not make it (the disk refused, or another
node leads the partition now) knows more than its log, and is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.errors import BrokerError, ErrorCode, ProtocolError
from ottla.ports import Clock
from ottla.protocol.records import BatchHeader, Record, iter_batches, read_records
from ottla.replicated import Reply, Result
from ottla.replication.partition import Partition
from ottla.runtime.committer import Committer
from ottla.runtime.shard_format import ShardFormat
from ottla.runtime.timers import Deadline, Timers
from ottla.services import Deferred
from ottla.storage.log import Origin

log = logging.getLogger(__name__)

LOAD_BYTES = 1024 * 1024
"""How much of a log is read at a time when a shard is loaded."""
LOAD_RECORD_BYTES_MAX = 64 * 1024 * 1024
ANSWER_MS_MAX = 5_000
"""How long an answer waits for followers: as long as Kafka waits for offsets to be replicated."""
REFUSED_BY_LOG = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""What a log says to a batch before it changes anything: the caller is refused, and the shard is as it was."""

R = TypeVar("R")
T = TypeVar("T")


class Machine(Protocol[R]):
    """A shard, as `ottla.replicated.Shard`, with its timers and its end."""

    def replay(self, record: R) -> None: ...

    def next_deadline_ms(self) -> int | None: ...

    def tick(self, now_ms: int) -> Result[R, Any]: ...

    def unload(self) -> Result[R, Any]:
        """It is given up: the answers to those who wait in it."""


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
        log_format: ShardFormat[R],
        on_lost: Callable[[], None],
        on_replayed: Callable[[ShardRuntime[S, R]], Callable[[], None] | None] | None = None,
    ) -> None:
        """`on_replayed` is called when records have been replayed; what it returns, when those are committed.

        `on_lost` is called when the shard knows more than its log, and must be built again.
        """
        self.shard = shard
        self.partition = partition
        self.is_open = True
        """False once it has been given up."""
        self._committer = committer
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._began_monotonic_ms = clock.monotonic_ms()
        self._timers = timers
        self._format = log_format
        self._on_replayed = on_replayed
        self._on_lost = on_lost
        self._alarm: Deadline | None = None
        self._alarm_ms: int | None = None

    @property
    def is_alone(self) -> bool:
        """Nobody else has the log: then a commit of this node's disk is all that its records need."""
        return not self.partition.followers

    def call(self, decide: Callable[[Any, Deferred[Any], int], Result[R, T]], *, at_once: bool = False) -> Deferred[T]:
        """`at_once`: answer before the commit where this node's disk alone decides. Only for callers inside of the
        node whose own writes go into the same commit or a later one, and who see to it that it is all or nothing.
        """
        caller: Deferred[T] = Deferred()
        now_ms = self._now_ms()
        self._carry_out(decide(self.shard, caller, now_ms), caller, now_ms, at_once=at_once and self.is_alone)
        return caller

    def _now_ms(self) -> int:
        """The calendar's time when this began, and what has passed since: a clock that is set ends no session."""
        return self._began_ms + self._clock.monotonic_ms() - self._began_monotonic_ms

    def _carry_out(
        self, result: Result[R, Any], caller: Deferred[Any] | None, now_ms: int, *, at_once: bool = False
    ) -> None:
        replies = list(result.replies)
        if caller is not None and result.response is not None:
            replies.append(Reply(token=caller, response=result.response))
        if result.records:
            try:
                self._append(result.records, now_ms)
            except BrokerError as error:
                _refuse(replies, error)
                if error.code not in REFUSED_BY_LOG:
                    self._lose()
                return
        if at_once:
            _send(replies)
        elif replies:
            self._answer(replies)
        if self.is_open:
            self._set_alarm()

    def _append(self, records: Sequence[R], now_ms: int) -> None:
        for batch in self._format.to_batches(records, now_ms):
            self._committer.append(self.partition, batch, now_ms=now_ms, origin=Origin.COORDINATOR)
        for record in records:
            self.shard.replay(record)
        end_offset = self.partition.log.end_offset
        publish = None if self._on_replayed is None else self._on_replayed(self)

        def committed(error: BrokerError | None) -> None:
            if error is not None:
                self._lose()
            elif publish is not None and self.is_open:
                publish()

        self.partition.when_committed(end_offset, committed)

    def _answer(self, replies: Sequence[Reply]) -> None:
        """At once if all that the shard knows is committed, otherwise when it is: if other nodes don't take too long.

        Nobody is told a lie by that: what was decided may still be committed, and who asks again finds out.
        """
        partition, end_offset = self.partition, self.partition.log.end_offset
        if partition.high_watermark >= end_offset:
            _send(replies)
            return
        deadline: Deadline | None = None
        is_open = True

        def committed(error: BrokerError | None) -> None:
            nonlocal is_open
            if not is_open:
                return
            is_open = False
            if deadline is not None:
                deadline.cancel()
            if error is None:
                _send(replies)
            else:
                _refuse(replies, error)

        if not self.is_alone:
            late = BrokerError(ErrorCode.REQUEST_TIMED_OUT, "not enough replicas have taken it in time")
            deadline = self._timers.after_ms(ANSWER_MS_MAX, lambda: committed(late))
        partition.when_committed(end_offset, committed)

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

    def begin(self) -> None:
        """The log is loaded: from here on it is served."""
        publish = None if self._on_replayed is None else self._on_replayed(self)
        if publish is not None:
            publish()
        if self.is_open:
            self._set_alarm()

    def _read_log(self) -> Iterator[list[R]]:
        partition = self.partition
        at = partition.log.start_offset
        while at < partition.high_watermark:
            piece = partition.log.read(at, LOAD_BYTES, upto_offset=partition.high_watermark, min_one_batch=True)
            records: list[R] = []
            for batch in iter_batches(piece):
                at = batch.last_offset + 1
                for record in read_records(batch.data, max_uncompressed_bytes=LOAD_RECORD_BYTES_MAX):
                    self._decode_into(records, batch, record)
            yield records

    def _decode_into(self, records: list[R], batch: BatchHeader, record: Record) -> None:
        """One record that can't be understood must not keep all others from being loaded."""
        try:
            decoded = self._format.from_batch(batch, record)
        except ProtocolError as error:
            log.error("%s, offset %d is passed over: %s", self.partition.log.partition, record.offset, error)
            return
        if decoded is not None:
            records.append(decoded)

    # The end

    def _lose(self) -> None:
        """What the shard decided is not in its log: it is of no use any more."""
        if self.is_open:
            self.close()
            self._on_lost()

    def close(self) -> None:
        """It is given up: no timer fires any more, and those who wait in it get its last answers."""
        if not self.is_open:
            return
        self.is_open = False
        if self._alarm is not None:
            self._alarm.cancel()
        _send(self.shard.unload().replies)


def _send(replies: Sequence[Reply]) -> None:
    for reply in replies:
        reply.token.complete(reply.response)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made


def _refuse(replies: Sequence[Reply], error: BrokerError) -> None:
    for reply in replies:
        reply.token.fail(error)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made

"""A consumer's fetch that is known but for its offsets, from them to the bytes of its answer.

Where a consumer reads at the tail, nearly every fetch finds nothing, waits, and is woken by one partition. On this way
nothing is built for it but a list of numbers and the one who waits. It says the same as `Fetch` does, and whatever is
not as plain as that (a refusal, an aborted transaction, a partition that is gone) is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, CorruptBatchError
from ottla.protocol.records import RECORDS_AT
from ottla.replication.readable import NO_EPOCH
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.ports import Sendable
    from ottla.protocol.known_fetch import KnownFetch
    from ottla.protocol.messages.fetch import FetchResponse
    from ottla.replication.partition import Partition
    from ottla.replication.readable import Readable
    from ottla.runtime.fetcher import Fetcher


def fetch_again(
    fetcher: Fetcher, known: KnownFetch, offsets: Sequence[int]
) -> Deferred[Any] | FetchResponse | bytes | None:
    get: Any = fetcher.partitions.get_by_id if known.is_by_id else fetcher.partitions.get
    reads_committed = known.reads_committed
    values, readable = known.values.copy(), []
    partitions: list[Partition] = []
    try:
        for (topic, index, epoch, _, at), offset in zip(known.places, offsets, strict=True):
            partition: Partition = get(topic, index)
            log, high_watermark = partition.log, partition.high_watermark
            start = log.start_offset
            if not start <= offset <= log.end_offset or NO_EPOCH != epoch != partition.leader_epoch:
                return None
            values[at] = high_watermark
            values[at + 1] = stable = log.stable_offset(high_watermark)
            values[at + 2] = start
            if offset < (stable if reads_committed else high_watermark):
                readable.append(len(partitions))
            partitions.append(partition)
    except BrokerError:
        return None
    if readable:
        return read(fetcher, known, offsets, partitions, values, readable)
    return Standing(fetcher, known, offsets, partitions, values) if known.max_wait_ms > 0 else known.answer(values)


def read(
    fetcher: Fetcher,
    known: KnownFetch,
    offsets: Sequence[int],
    partitions: Sequence[Partition],
    values: list[Any],
    readable: Iterable[int],
) -> FetchResponse | bytes | None:
    """The answer; None, and nothing is counted, if there is more to say than what was read."""
    reads_committed, left_bytes, size_bytes = known.reads_committed, fetcher.budget(known.max_bytes), 0
    read: list[tuple[int, Sendable]] = []
    to_count = []
    try:
        for number in readable:
            if left_bytes <= 0 and size_bytes:
                break
            partition, offset = partitions[number], offsets[number]
            _, _, _, max_bytes, at = known.places[number]
            log, asked_bytes = partition.log, min(max_bytes, left_bytes)
            upto = values[at + 1] if reads_committed else values[at]
            records = log.stretch(offset, asked_bytes, upto_offset=upto, min_one_batch=not size_bytes)
            if records:
                if reads_committed and log.aborted_among(records, offset, upto):
                    return None
                size_bytes += len(records)
                left_bytes -= len(records)
                read.append((at, records))
                to_count.append((partition, records, asked_bytes))
    except (BrokerError, CorruptBatchError):
        return None
    if not read:
        return None
    for partition, records, asked_bytes in to_count:
        partition.read_bytes += len(records)
        if RECORDS_AT <= len(records) < asked_bytes:
            fetcher.delivered(records)
    return known.answer(values, read, size_bytes)


class Standing(Deferred[Any]):
    """The answer to a fetch that found nothing, and stands with its partitions until there is something."""

    __slots__ = ("_deadline", "_fetcher", "_known", "_offsets", "_partitions", "_readable", "_values")

    def __init__(
        self,
        fetcher: Fetcher,
        known: KnownFetch,
        offsets: Sequence[int],
        partitions: Sequence[Partition],
        values: list[Any],
    ) -> None:
        super().__init__()
        self._fetcher = fetcher
        self._known = known
        self._offsets = offsets
        self._partitions = partitions
        self._values = values
        self._readable: list[int] = []
        """The places of partitions that have something, while it waits for more of them."""
        for partition in partitions:
            partition.waiters[self] = None
        self._deadline = fetcher.timers.after_ms(known.max_wait_ms, self._time_is_up)

    def more(self, partition: Readable, size_bytes: int) -> None:
        if self.done:
            return
        number = self._partitions.index(partition)
        known, values = self._known, self._values
        at = known.places[number][4]
        values[at] = upto = partition.high_watermark
        values[at + 1] = stable = partition.log.stable_offset(upto)
        if known.reads_committed:
            upto = stable
        if self._offsets[number] < upto and number not in self._readable:
            # otherwise what came is in a transaction that is open, or behind one
            self._readable.append(number)
            if len(self._readable) == 1:
                self._fetcher.outbox.add(self)

    def flush(self) -> None:
        if not self.done and self._readable:
            self._leave()
            readable = sorted(self._readable)
            answer = read(self._fetcher, self._known, self._offsets, self._partitions, self._values, readable)
            self.complete(self._long_way() if answer is None else answer)

    def gone(self, partition: Readable) -> None:
        if not self.done:
            self._leave()
            self.complete(self._long_way())

    def abandon(self) -> None:
        super().abandon()
        if not self.done:
            self._leave()
            self._readable = []

    def _time_is_up(self) -> None:
        self._leave()
        self.complete(self._known.answer(self._values))

    def _long_way(self) -> Any:
        """It has no time to wait, so there is an answer at once."""
        known = self._known
        return self._fetcher.fetch(known.request(self._offsets), known.version, 0)

    def _leave(self) -> None:
        self._deadline.cancel()
        for partition in self._partitions:
            partition.waiters.pop(self, None)

"""Whether a log should be compacted now, and how far.

Only closed segments, and none that anything else may still reach into: below the high watermark and every open
transaction, since what is above may yet be cut off or aborted; below what the journal holds, since recovery compares
its batches with the log's; and synced, since the new files replace the old as what is known to be on the medium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.compaction_task import LastBatch, Source, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.config import CleanerConfig
    from ottla.storage.log import Log
    from ottla.storage.producer_state import Producer
    from ottla.storage.segment import Segment


class Plan(NamedTuple):
    """Part of a log that may be compacted."""

    log: Log
    segments: Sequence[Segment]
    """From the first on."""
    end_offset: int
    first_dirty: int
    dirty_ratio: float
    """The share of bytes that no compaction has seen."""
    is_overdue: bool
    """Whether `max.compaction.lag.ms` is over for some record."""

    @property
    def pays(self) -> bool:
        return self.is_overdue or self.dirty_ratio >= self.log.config.min_cleanable_dirty_ratio

    @property
    def urgency(self) -> tuple[bool, float]:
        return self.is_overdue, self.dirty_ratio


def plan(log: Log, *, high_watermark: int, now_ms: int) -> Plan | None:
    """None if there is nothing to compact."""
    if not log.config.compacts or len(log.segments) < 2:
        return None
    first_dirty = log.clean_offset if log.start_offset <= log.clean_offset <= log.end_offset else log.start_offset
    segments = log.segments[: _count(log, first_dirty, high_watermark, now_ms)]
    if not segments:
        return None
    end_offset = log.segments[len(segments)].base_offset
    if end_offset <= first_dirty:
        return None
    sizes = [segment.size_bytes for segment in segments]
    clean = sum(size for size, segment in zip(sizes, segments, strict=True) if segment.base_offset < first_dirty)
    if segments[-1].base_offset < first_dirty:
        clean -= sizes[-1]  # the map was full within it
    return Plan(
        log=log,
        segments=segments,
        end_offset=end_offset,
        first_dirty=first_dirty,
        dirty_ratio=1 - clean / max(sum(sizes), 1),
        is_overdue=_is_overdue(log, segments, first_dirty, now_ms),
    )


def _count(log: Log, first_dirty: int, high_watermark: int, now_ms: int) -> int:
    """How many segments nothing else will change, and no record keeps for being too young."""
    bound = min(log.stable_offset(high_watermark), log.recovery_point, log.journaled_from)
    young_ms = now_ms - log.config.min_compaction_lag_ms
    for number, segment in enumerate(log.segments[:-1]):
        if log.segments[number + 1].base_offset > bound:
            return number
        is_dirty = log.segments[number + 1].base_offset > first_dirty
        if is_dirty and log.config.min_compaction_lag_ms and segment.largest_timestamp.timestamp_ms > young_ms:
            return number
    return len(log.segments) - 1


def _is_overdue(log: Log, segments: Sequence[Segment], first_dirty: int, now_ms: int) -> bool:
    ends = [segment.base_offset for segment in log.segments[1 : len(segments) + 1]]
    for segment, end in zip(segments, ends, strict=True):
        if end > first_dirty:
            return now_ms - segment.oldest_timestamp_ms > log.config.max_compaction_lag_ms
    return False


def task_of(plan: Plan, config: CleanerConfig, *, now_ms: int) -> Task:
    log = plan.log
    ends = [segment.base_offset for segment in plan.segments[1:]] + [plan.end_offset]
    return Task(
        directory=log.directory,
        sources=[
            Source(base_offset=segment.base_offset, end_offset=end, size_bytes=segment.size_bytes)
            for segment, end in zip(plan.segments, ends, strict=True)
        ],
        first_dirty=plan.first_dirty,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        map_bytes=config.dedupe_buffer_bytes,
        io_bytes_per_s=config.io_max_bytes_per_second,
        aborted=log.aborted_transactions(plan.segments[0].base_offset, plan.end_offset),
        producers=[_last_batch(producer) for producer in log.producers.active()],
    )


def _last_batch(producer: Producer) -> LastBatch:
    last_offset = producer.batches[-1][3] if producer.batches else -1
    return LastBatch(producer_id=producer.producer_id, epoch=producer.epoch, last_offset=last_offset)

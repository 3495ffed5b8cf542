"""Which segments a log may forget.

Whole segments only, the oldest first, and none that reaches the high watermark: what readers have not been able to see
must not vanish. Three reasons, asked one after the other as Kafka does: DeleteRecords has moved the start of the log
past it; the log is larger than it should be; its youngest record is too old. The last two only where the topic's policy
deletes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ottla.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.config import LogConfig
    from ottla.ports import Disk
    from ottla.storage.segment import Segment


class Reason(StrEnum):
    START_OFFSET = "the log starts after it"
    SIZE = "the log is larger than retention.bytes"
    AGE = "its records are older than retention.ms"
    COMPACTED = "what it held is in a compacted segment"


@value
class DeletedSegment:
    """A segment that is out of the log, with its files renamed so that no start-up takes them for data."""

    base_offset: int
    size_bytes: int
    reason: Reason
    paths: Sequence[str]
    disk: Disk

    def remove(self) -> None:
        """Give the room back. Any thread: removing a large file takes its time."""
        for path in self.paths:
            self.disk.remove(path)


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    start_offset: int,
    end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[tuple[Segment, Reason]]:
    """The segments to forget, a run from the oldest on. All of them if all are; never a single empty one."""
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    candidates = [
        (segment, end)
        for segment, end in zip(segments, ends, strict=True)
        if end <= high_watermark and (segment.size_bytes or end != end_offset)
    ]
    doomed: list[tuple[Segment, Reason]] = []

    def take(reason: Reason, is_doomed: Callable[[Segment, int], bool]) -> None:
        for segment, end in candidates[len(doomed) :]:
            if not is_doomed(segment, end):
                return
            doomed.append((segment, reason))

    take(Reason.START_OFFSET, lambda segment, end: end <= start_offset and segment is not segments[-1])
    if config.deletes and config.retention_bytes >= 0:
        surplus = sum(segment.size_bytes for segment in segments[len(doomed) :]) - config.retention_bytes

        def is_surplus(segment: Segment, end: int) -> bool:
            nonlocal surplus
            surplus -= segment.size_bytes
            return surplus >= 0

        take(Reason.SIZE, is_surplus)
    if config.deletes and config.retention_ms >= 0:
        oldest_ms = now_ms - config.retention_ms
        take(Reason.AGE, lambda segment, end: segment.age_timestamp_ms < oldest_ms)
    return doomed

"""Compaction: of each key only the newest record stays.

    plan (event loop)      which closed segments of a log may be compacted, and whether that pays: `compaction_plan`
    compact (elsewhere)    read what is dirty, write what stays into new files beside the old: here
    swap (event loop)      the new files take the place of the old ones, safe against a crash: `compaction_swap`

What must not change: every record's offset and timestamp, the base offset and the last offset of every batch, the last
batch of a producer (empty if need be, for its sequence number), and the last batch of a new segment (empty if need be:
it says how far the segment reaches). A tombstone stays until `delete.retention.ms` after the compaction that first
passed it, and so does the marker of a transaction of which nothing else is left; that time is in the batch's header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.compression import Compression, compress
from ottla.protocol.records import (
    BATCH_HEADER,
    BODY_AT,
    BODY_HEADER,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEAD,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    crc32c,
)
from ottla.storage.compaction_map import batches_of, build_map, content_of
from ottla.storage.compaction_output import CleanedSegment
from ottla.storage.compaction_records import all_records, pick, pick_offsets, shift_timestamps
from ottla.storage.compaction_task import Done, Group
from ottla.storage.compaction_transactions import SeenTransactions
from ottla.storage.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.ports import Disk
    from ottla.storage.compaction_map import KeyMap
    from ottla.storage.compaction_records import Kept
    from ottla.storage.compaction_task import Source, Task

DELETE_HORIZON_BIT = 0b1000000
"""In a batch's attributes: its base timestamp is the time from which on its tombstones may go."""
_NO_TIMESTAMP = -1


def compact(disk: Disk, task: Task, pace: Callable[[int], None]) -> Done:
    """Write the new segments. Any process: all it needs is the task. CorruptBatchError if a batch is damaged."""
    key_map = build_map(disk, task, pace)
    return _Compaction(disk, task, key_map, pace).run()


def grouped(task: Task, end_offset: int) -> list[list[Source]]:
    """Neighbours that together fit into one segment: compaction must not leave a trail of small files."""
    groups: list[list[Source]] = []
    size = entries = 0
    entries_max = task.segment_index_bytes // ENTRY_BYTES
    for source in task.sources:
        if source.base_offset >= end_offset and groups:
            break
        own_entries = source.size_bytes // max(task.index_interval_bytes, 1)
        if (
            groups
            and size + source.size_bytes <= task.segment_bytes
            and entries + own_entries <= entries_max
            and source.end_offset - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            groups[-1].append(source)
            size += source.size_bytes
            entries += own_entries
        else:
            groups.append([source])
            size, entries = source.size_bytes, own_entries
    return groups


class _Compaction:
    """The second half: what stays is written."""

    def __init__(self, disk: Disk, task: Task, key_map: KeyMap, pace: Callable[[int], None]) -> None:
        self._disk = disk
        self._task = task
        self._map = key_map
        self._pace = pace
        self._transactions = SeenTransactions(task.aborted)
        self._last_batches = {producer.producer_id: producer for producer in task.producers}
        self._records_read = self._records_kept = self._bytes_read = self._bytes_kept = 0

    def run(self) -> Done:
        groups = [self._write(group) for group in grouped(self._task, self._map.end_offset)]
        return Done(
            groups=groups,
            clean_offset=self._map.end_offset,
            records_read=self._records_read,
            records_kept=self._records_kept,
            bytes_read=self._bytes_read,
            bytes_kept=self._bytes_kept,
            keys=len(self._map.offsets),
            map_is_full=self._map.is_full,
        )

    def _write(self, group: Sequence[Source]) -> Group:
        out = CleanedSegment(self._disk, self._task.directory, group[0].base_offset, self._task.index_interval_bytes)
        for source in group:
            position = 0
            self._bytes_read += source.size_bytes
            for batch in batches_of(self._disk, self._task.directory, source, self._pace):
                position += len(batch)
                is_last = source is group[-1] and position == source.size_bytes
                self._take(batch, out, is_last)
        out.finish(self._pace)
        self._bytes_kept += out.size_bytes
        return Group(bases=[source.base_offset for source in group], size_bytes=out.size_bytes)

    def _take(self, batch: memoryview, out: CleanedSegment, is_last: bool) -> None:
        fields = BATCH_HEADER.unpack_from(batch)
        attributes, last_offset, producer_id, count = fields[5], fields[0] + fields[6], fields[9], fields[12]
        self._records_read += count
        is_void = self._transactions.may_discard(batch, attributes, producer_id, last_offset)
        must_stay = is_last or (producer_id >= 0 and self._is_last_of_producer(fields, last_offset))
        if attributes & CONTROL_BIT:
            rewritten = self._control(batch, fields, is_void)
        elif is_void or not count:
            rewritten = None
        else:
            rewritten = self._data(batch, fields, last_offset)
        if rewritten is None and must_stay:
            rewritten = _emptied(fields)
        if rewritten is None:
            return
        out.append(rewritten, self._pace)
        self._records_kept += BATCH_HEADER.unpack_from(rewritten)[12]
        if self._transactions.kept is not None:
            out.note_abort(self._transactions.kept)

    def _is_last_of_producer(self, fields: tuple[int, ...], last_offset: int) -> bool:
        last = self._last_batches.get(fields[9])
        if last is None:
            return False
        if last.last_offset >= 0:
            return last.last_offset == last_offset
        return bool(fields[5] & CONTROL_BIT) and fields[10] == last.epoch

    def _control(self, batch: memoryview, fields: tuple[int, ...], is_void: bool) -> bytes | memoryview | None:
        """A marker that ends nothing any more waits for its time, as a tombstone does."""
        if not is_void:
            return batch
        if not fields[12] or (fields[5] & DELETE_HORIZON_BIT and fields[7] <= self._task.now_ms):
            return None
        if fields[5] & DELETE_HORIZON_BIT:
            return batch
        data = content_of(batch)
        return self._rebuilt(fields, data, all_records(data, fields[12]), sets_horizon=True)

    def _data(self, batch: memoryview, fields: tuple[int, ...], last_offset: int) -> bytes | memoryview | None:
        base_offset, attributes, count = fields[0], fields[5], fields[12]
        first_dirty, end_offset = self._map.first_dirty, self._map.end_offset
        if base_offset >= end_offset:
            return batch
        if base_offset >= first_dirty and last_offset < end_offset:
            stays = self._map.staying_between(base_offset, last_offset)
            if not stays:
                return None
            data = content_of(batch, checked=True)
            if count == fields[6] + 1:
                kept = pick_offsets(data, count, base_offset, stays)
            else:
                kept = pick(data, count, base_offset, self._map.offsets, first_dirty, end_offset)
        else:
            data = content_of(batch, checked=True)
            kept = pick(data, count, base_offset, self._map.offsets, first_dirty, end_offset)
        has_horizon = bool(attributes & DELETE_HORIZON_BIT)
        has_tombstones = any(record.is_tombstone for record in kept)
        if has_tombstones and has_horizon and fields[7] <= self._task.now_ms:
            kept = [record for record in kept if not record.is_tombstone]
            has_tombstones = False
        if not kept:
            return None
        sets_horizon = has_tombstones and not has_horizon
        if len(kept) == count and not sets_horizon:
            return batch
        return self._rebuilt(fields, data, kept, sets_horizon=sets_horizon)

    def _rebuilt(self, fields: tuple[int, ...], data: bytes, kept: Sequence[Kept], *, sets_horizon: bool) -> bytes:
        """The batch with these records only."""
        attributes, base_ms, max_ms = fields[5], fields[7], fields[8]
        if not attributes & LOG_APPEND_TIME_BIT:
            max_ms = base_ms + max(record.timestamp_delta_ms for record in kept)
        if sets_horizon:
            horizon_ms = self._task.now_ms + self._task.delete_retention_ms
            content = shift_timestamps(data, list(kept), base_ms - horizon_ms)
            attributes, base_ms = attributes | DELETE_HORIZON_BIT, horizon_ms
        else:
            content = b"".join([data[record.start : record.end] for record in kept])
        content = compress(Compression(attributes & COMPRESSION_MASK), content)
        return _framed(fields, attributes, base_ms, max_ms, len(kept), content)


def _emptied(fields: tuple[int, ...]) -> bytes:
    """The batch without its records: its offsets and its producer's sequence numbers are still told."""
    attributes = fields[5] & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    return _framed(fields, attributes, _NO_TIMESTAMP, fields[8], 0, b"")


def _framed(fields: tuple[int, ...], attributes: int, base_ms: int, max_ms: int, count: int, content: bytes) -> bytes:
    producer_id, epoch, sequence = fields[9:12]
    body = BODY_HEADER.pack(attributes, fields[6], base_ms, max_ms, producer_id, epoch, sequence, count) + content
    return HEAD.pack(fields[0], len(body) + BODY_AT - LENGTH_OVERHEAD_BYTES, fields[2], MAGIC, crc32c(body)) + body

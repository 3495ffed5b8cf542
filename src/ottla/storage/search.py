"""Finding a record by its time: what ListOffsets asks for.

The time index leads to the neighbourhood, the batch headers to the batch, and only that one batch is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.records import BATCH_HEADER, read_records
from ottla.storage.time_index import NO_TIMESTAMP, TimeEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.storage.segment import Segment


class Found(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, upto_offset: int
) -> Found | None:
    """The first record from `start_offset` on whose timestamp is not before `timestamp_ms`."""
    for segment in segments:
        if segment.largest_timestamp.timestamp_ms < timestamp_ms:
            continue
        from_offset = max(segment.times.lookup(timestamp_ms), start_offset)
        for batch in _batches(segment, from_offset, upto_offset):
            if _max_timestamp_ms(batch) >= timestamp_ms:
                for found in _records(batch):
                    if found.timestamp_ms >= timestamp_ms and found.offset >= start_offset:
                        return found
    return None


def largest(segments: Sequence[Segment], start_offset: int, upto_offset: int) -> Found | None:
    """The first record that has the largest timestamp of those that readers may see."""
    best, holder = TimeEntry(NO_TIMESTAMP, -1), None
    for segment in segments:
        if segment.largest_timestamp.timestamp_ms > best.timestamp_ms:
            entry = _largest_visible(segment, start_offset, upto_offset)
            if entry.timestamp_ms > best.timestamp_ms:
                best, holder = entry, segment
    if holder is None:
        return None
    for batch in _batches(holder, best.offset, upto_offset):
        for found in _records(batch):
            if found.timestamp_ms == best.timestamp_ms:
                return found
        break
    return _largest_of_all(segments, start_offset, upto_offset)


def _largest_of_all(segments: Sequence[Segment], start_offset: int, upto_offset: int) -> Found | None:
    """Where compaction has emptied the batch that had the largest timestamp: look at every batch that has records."""
    best: Found | None = None
    for segment in segments:
        for batch in _batches(segment, start_offset, upto_offset):
            if best is None or _max_timestamp_ms(batch) > best.timestamp_ms:
                for found in _records(batch):
                    if found.offset >= start_offset and (best is None or found.timestamp_ms > best.timestamp_ms):
                        best = found
    return best


def _largest_visible(segment: Segment, start_offset: int, upto_offset: int) -> TimeEntry:
    """The largest timestamp of a segment; where that is of a batch not yet to be seen, or deleted, of the others."""
    entry = segment.largest_timestamp
    if start_offset <= entry.offset < upto_offset:
        return entry
    best = segment.times.last_before(upto_offset)
    if best.offset < start_offset:
        best = TimeEntry(NO_TIMESTAMP, start_offset)
    for batch in _batches(segment, best.offset, upto_offset):
        timestamp_ms = _max_timestamp_ms(batch)
        if timestamp_ms > best.timestamp_ms:
            fields = BATCH_HEADER.unpack_from(batch)
            best = TimeEntry(timestamp_ms, fields[0] + fields[6])
    return best


def _batches(segment: Segment, from_offset: int, upto_offset: int) -> Iterator[memoryview]:
    """From the one that holds `from_offset` on."""
    position = segment.locate(from_offset, segment.written) if segment.size_bytes else None
    if position is None:
        return
    for batch in segment.scan(position):
        if int.from_bytes(batch[:8]) >= upto_offset:
            return
        yield batch


def _max_timestamp_ms(batch: memoryview) -> int:
    return int(BATCH_HEADER.unpack_from(batch)[8])


def _records(batch: memoryview) -> Iterator[Found]:
    leader_epoch = BATCH_HEADER.unpack_from(batch)[2]
    try:
        for record in read_records(batch):
            yield Found(record.timestamp_ms, record.offset, leader_epoch)
    except CorruptBatchError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

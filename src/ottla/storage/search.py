"""Finding a record by its time: what ListOffsets asks for.

The time index leads to the neighbourhood, the batch headers to the batch, and only that one batch is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.records import BATCH_HEADER, read_records

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
    """The first record that has the largest timestamp of the log."""
    segment = max(segments, key=lambda segment: segment.largest_timestamp.timestamp_ms)
    timestamp_ms, offset = segment.largest_timestamp
    if timestamp_ms < 0:
        return None
    for batch in _batches(segment, max(offset, start_offset), upto_offset):
        if _max_timestamp_ms(batch) == timestamp_ms:
            return next((found for found in _records(batch) if found.timestamp_ms == timestamp_ms), None)
    return None


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

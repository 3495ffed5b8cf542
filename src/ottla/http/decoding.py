"""Record batches to messages, many at a time: what most of the CPU of consuming goes to.

Reading a thousand messages record by record, each through a few functions, costs some 4 µs a message; a loop that has
the common case in it costs a quarter of that. What is not the common case (lengths of a megabyte, bytes that are not
text, anything that looks wrong) is left to `read_records` and `received`, which say what a record is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from ottla.errors import CorruptBatchError
from ottla.http.messages import Encoding, Received, received
from ottla.protocol.compression import decompress
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.record import Header, Record, read_headers, read_varint
from ottla.protocol.records import (
    BATCH_HEADER,
    LENGTH_BYTES_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    RECORDS_AT,
    UNCOMPRESSED_BYTES_MAX,
    BatchHeader,
    TimestampType,
    read_records,
)

STEP_RECORDS: Final = 500
"""Then others may have their turn."""
NULL: Final = 1
"""A length of -1."""

Row = tuple[int, int, bytes | None, bytes | None, Sequence[Header]]
"""Timestamp, offset, key, value, headers."""

_unpack = BATCH_HEADER.unpack_from


class Aborted:
    """The transactions that an answer tells of as aborted, while its batches are gone through in order."""

    __slots__ = ("_now", "_upcoming")

    def __init__(self, first_offsets: Sequence[tuple[int, int]]) -> None:
        """Each transaction's first offset and its producer."""
        self._upcoming = sorted(first_offsets, reverse=True)
        self._now: set[int] = set()

    def hides(self, batch: BatchHeader) -> bool:
        """Whether a transactional batch, or a control batch, is not to be shown."""
        while self._upcoming and self._upcoming[-1][0] <= batch.last_offset:
            self._now.add(self._upcoming.pop()[1])
        if not batch.is_control:
            return batch.producer_id in self._now
        if control_type(next(read_records(batch.data))) is ControlType.ABORT:
            self._now.discard(batch.producer_id)
        return True


class Decoder:
    """Of the answers to the fetches of one reader, up to its limit."""

    def __init__(self, topic: str, partition: int, encoding: Encoding, limit: int) -> None:
        self._topic = topic
        self._partition = partition
        self._encoding = encoding
        self._limit = limit
        self.found: list[Received] = []
        """All so far; never more than the limit."""
        self.bytes_read = 0
        """Of the batches that were looked into."""

    def decode(self, data: bytes, from_offset: int, aborted: Aborted) -> Iterator[int]:
        """Adds to `found`; after each step, the offset up to which everything is there. Ends at the limit."""
        rows: list[Row] = []
        at, size, after = 0, len(data), from_offset
        while size - at >= RECORDS_AT:
            base, length, _, magic, _, attributes, last_delta, base_ms, _, _, _, _, count = _unpack(data, at)
            end = at + LENGTH_OVERHEAD_BYTES + length
            if end > size and length >= LENGTH_BYTES_MIN:
                break
            if magic != MAGIC or length < LENGTH_BYTES_MIN:
                BatchHeader.parse(data, at)  # raises
            self.bytes_read += end - at
            plain = None
            if not attributes and base >= from_offset and count <= STEP_RECORDS:
                plain = rows_of(data, at + RECORDS_AT, end, count, base, base_ms)
            if plain is not None and plain[1] == end:
                rows += plain[0]
            else:
                self._add(rows)
                rows.clear()
                yield from self._batch(BatchHeader.parse(data, at), from_offset, aborted)
            if len(rows) + len(self.found) >= self._limit:
                if rows:
                    yield self._add(rows)
                return
            after, at = base + last_delta + 1, end
            if len(rows) >= STEP_RECORDS:
                self._add(rows)
                rows.clear()
                yield after
        self._add(rows)
        yield after

    def _batch(self, batch: BatchHeader, from_offset: int, aborted: Aborted) -> Iterator[int]:
        """One that is large, compressed, part of a transaction, begins too early, or is out of the ordinary."""
        if (batch.is_control or batch.is_transactional) and aborted.hides(batch):
            return
        content = decompress(batch.compression, batch.data[RECORDS_AT:], UNCOMPRESSED_BYTES_MAX)
        if batch.record_count < 0:
            raise CorruptBatchError(f"{batch.record_count} records in {len(content)} bytes")
        at, left = 0, batch.record_count
        while left and len(self.found) < self._limit:
            count = min(left, STEP_RECORDS)
            some = rows_of(content, at, len(content), count, batch.base_offset, batch.base_timestamp_ms)
            if some is None:
                yield from self._slowly(islice(read_records(batch.data), batch.record_count - left, None), from_offset)
                return
            rows, at = some
            left -= count
            if batch.timestamp_type is TimestampType.LOG_APPEND:
                rows = [(batch.max_timestamp_ms, *row[1:]) for row in rows]
            wanted = [row for row in rows if row[1] >= from_offset]
            if wanted:
                yield self._add(wanted)
        if not left and at != len(content):
            raise CorruptBatchError(f"{len(content) - at} bytes after the last record")

    def _slowly(self, records: Iterator[Record], from_offset: int) -> Iterator[int]:
        for number, record in enumerate(records):
            if record.offset >= from_offset:
                self.found.append(received(record, self._topic, self._partition, self._encoding))
                if len(self.found) >= self._limit or not number % STEP_RECORDS:
                    yield record.offset + 1
                if len(self.found) >= self._limit:
                    return

    def _add(self, rows: list[Row]) -> int:
        """As many as the limit allows. The offset after the last of them."""
        room = self._limit - len(self.found)
        if len(rows) > room:
            rows = rows[:room]
        if not rows:
            return 0
        topic, partition = self._topic, self._partition
        texts = _as_text(rows, topic, partition) if self._encoding is Encoding.TEXT else None
        self.found += texts or [
            received(Record(key, value, headers, timestamp_ms, offset), topic, partition, self._encoding)
            for timestamp_ms, offset, key, value, headers in rows
        ]
        return rows[-1][1] + 1


def _as_text(rows: list[Row], topic: str, partition: int) -> list[Received] | None:
    """None if something is not text."""
    try:
        return [
            Received(
                topic,
                partition,
                offset,
                timestamp_ms,
                None if key is None else key.decode(),
                None if value is None else value.decode(),
                _texts(headers) if headers else headers,
            )
            for timestamp_ms, offset, key, value, headers in rows
        ]
    except UnicodeDecodeError:
        return None


def _texts(headers: Sequence[Header]) -> list[tuple[str, str | None]]:
    return [(name, None if content is None else content.decode()) for name, content in headers]


def rows_of(
    data: bytes, at: int, stop: int, count: int, base_offset: int, base_ms: int
) -> tuple[list[Row], int] | None:
    """The next `count` records, and where they end. None if one of them is out of the ordinary, or wrong."""
    rows: list[Row] = []
    try:
        for _ in range(count):
            length = data[at]
            at += 1
            if length > 127:
                length, at = _longer(data, at, length)
            end = at + (length >> 1)
            at += 1
            delta_ms = data[at]
            at += 1
            if delta_ms > 127:
                delta_ms, at = _longer(data, at, delta_ms)
            delta = data[at]
            at += 1
            if delta > 127:
                delta, at = _longer(data, at, delta)
            size = data[at]
            at += 1
            if size == NULL:
                key = None
            else:
                if size > 127:
                    size, at = _longer(data, at, size)
                key = data[at : (at := at + (size >> 1))]
            if size & 1 and key is not None:
                return None
            size = data[at]
            at += 1
            if size == NULL:
                value = None
            else:
                if size > 127:
                    size, at = _longer(data, at, size)
                value = data[at : (at := at + (size >> 1))]
            if size & 1 and value is not None:
                return None
            if data[at]:
                headers, at = read_headers(data, at)
            else:
                headers = ()
                at += 1
            if at != end or end > stop or (length | delta) & 1:
                return None
            timestamp_ms = base_ms + ((delta_ms >> 1) ^ -(delta_ms & 1))
            rows.append((timestamp_ms, base_offset + (delta >> 1), key, value, headers))
    except (IndexError, CorruptBatchError):
        return None
    return rows, at


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """A number of more than one byte, still in zigzag."""
    second = data[at]
    if second < 128:
        return first & 127 | second << 7, at + 1
    number, at = read_varint(data, at - 1)
    return number << 1 if number >= 0 else (-number << 1) - 1, at

"""Raw record batches, as a fetch brings them, to Arrow.

A batch costs a little Python (its header, its checksum, its codec); its records cost none: the loops over them are in
`kernels`. What a reader must not see is left out here: control batches, records of aborted transactions, and records
before or after the range that was asked for (a fetch starts with the batch that holds the offset). Offsets may have
gaps, since compaction leaves some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.errors import CorruptBatchError
from ottla.protocol.compression import Compression, decompress
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.record import RECORD_BYTES_MIN
from ottla.protocol.records import (
    BODY_AT,
    RECORDS_AT,
    BatchHeader,
    TimestampType,
    crc32c,
    iter_batches,
    read_records,
)
from pyspark_ottla.kernels import DAMAGED, decode_headers, decode_records

__all__ = ["COLUMNS", "HEADERS_TYPE", "Decoder", "Range", "last_offset_in"]

CHUNK_BYTES: Final = 1024 * 1024
"""Uncompressed bytes that become one Arrow batch, unless a record batch has more.

What stays in the processor's caches on its way through Python, the socket and the JVM costs a fifth less there than
batches of 4 MiB.
"""
BATCH_BYTES_MAX: Final = 1024 * 1024 * 1024
NOT_APPENDED: Final = -1

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets of one topic partition: from `start` up to, not including, `end`."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Batch:
    header: BatchHeader
    content: Array
    """Its records, uncompressed."""


def last_offset_in(records: memoryview) -> int | None:
    """Of the last whole batch, by the headers alone."""
    last = None
    for batch in iter_batches(records):
        last = batch.last_offset
    return last


class Decoder:
    """Decodes one range in the order of its offsets; it remembers which transactions were aborted."""

    def __init__(self, wanted: Range, schema: pa.Schema, *, check_crcs: bool = True) -> None:
        self._wanted = wanted
        self._schema = schema
        self._includes_headers = "headers" in schema.names
        self._checks_crcs = check_crcs
        self._aborted_producers: set[int] = set()

    def decode(
        self, records: memoryview, aborted: Sequence[tuple[int, int]], *, from_offset: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """`aborted`: producer ids and first offsets of the aborted transactions among these records."""
        if from_offset > self._wanted.start:
            self._wanted = replace(self._wanted, start=from_offset)
        chunk: list[_Batch] = []
        chunk_bytes = 0
        for header in self._visible(iter_batches(records), aborted):
            batch = _Batch(header, self._content(header))
            if chunk and chunk_bytes + len(batch.content) > CHUNK_BYTES:
                yield from self._arrow(chunk, chunk_bytes)
                chunk, chunk_bytes = [], 0
            chunk.append(batch)
            chunk_bytes += len(batch.content)
        yield from self._arrow(chunk, chunk_bytes)

    def _visible(self, batches: Iterable[BatchHeader], aborted: Sequence[tuple[int, int]]) -> Iterator[BatchHeader]:
        ahead = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        for batch in batches:
            if self._checks_crcs and crc32c(np.frombuffer(batch.data, np.uint8)[BODY_AT:]) != batch.crc:
                raise _damaged(self._wanted, batch, "its checksum is wrong")
            while ahead and ahead[-1][1] <= batch.last_offset:
                self._aborted_producers.add(ahead.pop()[0])
            if batch.is_control:
                if batch.record_count and _is_abort(batch):
                    self._aborted_producers.discard(batch.producer_id)
                continue
            if batch.is_transactional and batch.producer_id in self._aborted_producers:
                continue
            if batch.last_offset >= self._wanted.start and batch.base_offset < self._wanted.end:
                yield batch

    def _content(self, header: BatchHeader) -> Array:
        raw: bytes | memoryview = header.data[RECORDS_AT:]
        if header.compression is not Compression.NONE:
            raw = decompress(header.compression, raw, BATCH_BYTES_MAX)
        if not 0 <= header.record_count * RECORD_BYTES_MIN <= len(raw):
            raise _damaged(self._wanted, header)
        return np.frombuffer(raw, np.uint8)

    def _arrow(self, chunk: list[_Batch], size_bytes: int) -> Iterator[pa.RecordBatch]:
        columns = _Columns(sum(batch.header.record_count for batch in chunk), size_bytes, self._includes_headers)
        for batch in chunk:
            columns.add(batch, self._wanted)
        if columns.rows:
            arrays = columns.arrays(self._wanted)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)


def _is_abort(batch: BatchHeader) -> bool:
    return control_type(next(iter(read_records(batch.data)))) is ControlType.ABORT


class _Blobs:
    """Byte strings one after the other, in Arrow's layout. Memory that is not written to is never touched."""

    def __init__(self, count: int, size_bytes: int) -> None:
        self.ends = np.zeros(count + 1, np.int32)
        self.valid = np.empty(count, np.uint8)
        self.data = np.empty(size_bytes, np.uint8)

    def array(self, kind: pa.DataType, count: int) -> pa.Array:
        validity = None
        nulls = count - int(np.count_nonzero(self.valid[:count]))
        if nulls:
            validity = pa.py_buffer(np.packbits(self.valid[:count], bitorder="little"))
        data = pa.py_buffer(self.data[: self.ends[count]])
        return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(self.ends[: count + 1]), data], nulls)


class _Columns:
    """What becomes one Arrow batch, with room for `count` records of `size_bytes` in total."""

    def __init__(self, count: int, size_bytes: int, includes_headers: bool) -> None:
        self.rows = 0
        self._keys = _Blobs(count, size_bytes)
        self._values = _Blobs(count, size_bytes)
        self._offsets = np.empty(count, np.int64)
        self._timestamps_us = np.empty(count, np.int64)
        self._timestamp_types = np.empty(count, np.int32)
        self._headers_at = np.empty(count, np.int64)
        self._header_counts = np.empty(count, np.int32)
        self._headers = 0
        self._includes_headers = includes_headers
        if includes_headers:
            self._names = _Blobs(size_bytes // 2, size_bytes)
            self._contents = _Blobs(size_bytes // 2, size_bytes)

    def add(self, batch: _Batch, wanted: Range) -> None:
        header, before = batch.header, self.rows
        is_appended = header.timestamp_type is TimestampType.LOG_APPEND
        after = decode_records(
            batch.content,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            header.max_timestamp_ms if is_appended else NOT_APPENDED,
            wanted.start,
            wanted.end,
            before,
            self._offsets,
            self._timestamps_us,
            self._keys.ends,
            self._keys.valid,
            self._keys.data,
            self._values.ends,
            self._values.valid,
            self._values.data,
            self._headers_at,
            self._header_counts,
        )
        if after == DAMAGED:
            raise _damaged(wanted, header)
        self.rows = int(after)
        self._timestamp_types[before:after] = header.timestamp_type
        if self._includes_headers:
            self._add_headers(batch, before, wanted)

    def _add_headers(self, batch: _Batch, from_row: int, wanted: Range) -> None:
        after = decode_headers(
            batch.content,
            from_row,
            self.rows,
            self._headers_at,
            self._header_counts,
            self._headers,
            self._names.ends,
            self._names.data,
            self._contents.ends,
            self._contents.valid,
            self._contents.data,
        )
        if after == DAMAGED:
            raise _damaged(wanted, batch.header)
        self._headers = int(after)

    def arrays(self, wanted: Range) -> dict[str, pa.Array]:
        rows = self.rows
        found = {
            "key": self._keys.array(pa.binary(), rows),
            "value": self._values.array(pa.binary(), rows),
            "topic": pa.repeat(pa.scalar(wanted.topic, pa.string()), rows),
            "partition": _numbers("partition", np.full(rows, wanted.partition, np.int32)),
            "offset": _numbers("offset", self._offsets[:rows]),
            "timestamp": _numbers("timestamp", self._timestamps_us[:rows]),
            "timestampType": _numbers("timestampType", self._timestamp_types[:rows]),
        }
        if self._includes_headers:
            found["headers"] = self._header_array(rows)
        return found

    def _header_array(self, rows: int) -> pa.Array:
        """Records without headers have null, as in Spark's Kafka source."""
        counts = self._header_counts[:rows]
        ends = np.zeros(rows + 1, np.int32)
        np.cumsum(counts, out=ends[1:])
        self._names.valid[: self._headers] = 1
        pairs = pa.StructArray.from_arrays(
            [self._names.array(pa.string(), self._headers), self._contents.array(pa.binary(), self._headers)],
            fields=list(HEADERS_TYPE.value_type),
        )
        validity = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
        nulls = rows - int(np.count_nonzero(counts))
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [validity, pa.py_buffer(ends)], nulls, children=[pairs])


def _numbers(column: str, numbers: Array) -> pa.Array:
    """Without a copy, and without pandas, which `pa.array` would load: 0.4 s in every new worker."""
    return pa.Array.from_buffers(COLUMNS.field(column).type, len(numbers), [None, pa.py_buffer(numbers)], 0)


def _damaged(wanted: Range, header: BatchHeader, how: str = "its records can't be read") -> CorruptBatchError:
    at = f"{wanted.topic}-{wanted.partition}: the batch at offset {header.base_offset}"
    return CorruptBatchError(f"{at} is damaged: {how}")

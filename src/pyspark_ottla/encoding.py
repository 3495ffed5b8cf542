"""Rows in Arrow to record batches, one list of them per topic partition.

Keys go where Kafka's own clients put them (murmur2), so that both may write to one topic; rows without a key go around
the partitions in runs. The order of rows that go to one partition is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_ottla.blobs import Blobs
from pyspark_ottla.kernels import encode_records, partitions_of_keys
from pyspark_ottla.offsets import Partition

__all__ = ["EncodedBatch", "Encoder", "RowsError", "gathered"]

RUN_ROWS: Final = 1_024
"""Rows without a key that go to one partition before the next has its turn."""
RECORD_OVERHEAD_BYTES: Final = 40
"""Lengths and numbers of one record, at most."""
HEADER_OVERHEAD_BYTES: Final = 10

Array = np.ndarray[Any, Any]


class RowsError(ValueError):
    """Rows that can't be written; the message says why."""


def gathered(batches: Iterator[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least `size_bytes`, but for the last."""
    several: list[pa.RecordBatch] = []
    for batch in batches:
        several.append(batch)
        if sum(held.nbytes for held in several) >= size_bytes:
            yield _joined(several)
            several = []
    if several:
        yield _joined(several)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class EncodedBatch:
    """Encoded records of one partition, and how many they are: a batch but for its header."""

    __slots__ = ("at", "count", "records")

    def __init__(self, at: Partition, count: int, records: bytes) -> None:
        self.at, self.count, self.records = at, count, records


class Encoder:
    """Encodes the rows of one task."""

    def __init__(self, topic: str | None, partition_count: Callable[[str], int], batch_bytes: int) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._batch_bytes = batch_bytes
        self._runs = int(np.random.default_rng().integers(1 << 16))

    def encode(self, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        if "value" not in columns:
            raise RowsError("there is no column named value")
        records = _Records(columns, rows.num_rows)
        for topic, chosen in self._by_topic(columns.get("topic"), rows.num_rows):
            partitions = self._partitions(topic, records.keys, columns.get("partition"), rows.num_rows)[chosen]
            order = np.argsort(partitions, kind="stable")
            sorted_partitions = partitions[order]
            edges = np.flatnonzero(np.diff(sorted_partitions)) + 1
            for group in np.split(order, edges):
                if len(group):
                    yield from self._batches((topic, int(partitions[group[0]])), chosen[group], records)

    def _by_topic(self, column: pa.Array | None, count: int) -> Iterator[tuple[str, Array]]:
        """The option goes before the column, as in Spark's Kafka sink."""
        if self._topic is not None:
            yield self._topic, np.arange(count)
            return
        if column is None:
            raise RowsError("neither the option topic nor a column named topic says where rows go")
        if column.null_count:
            raise RowsError("the column topic holds null")
        names = pc.dictionary_encode(column)
        codes = names.indices.to_numpy(zero_copy_only=False)
        for code, name in enumerate(names.dictionary.to_pylist()):
            yield name, np.flatnonzero(codes == code)

    def _partitions(self, topic: str, keys: Blobs, column: pa.Array | None, count: int) -> Array:
        existing = self._partition_count(topic)
        found = np.empty(count, np.int64)
        partitions_of_keys(keys.ends, keys.valid, keys.data, existing, found)
        keyless = np.flatnonzero(found < 0)
        found[keyless] = (self._runs + np.arange(len(keyless)) // RUN_ROWS) % existing
        self._runs += len(keyless) // RUN_ROWS + 1
        if column is not None:
            told = pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy(zero_copy_only=False)
            if len(told) and int(told.max()) >= existing:
                raise RowsError(f"partition {int(told.max())} where {topic} has {existing}")
            found = np.where(told >= 0, told, found)
        return found

    def _batches(self, at: Partition, rows: Array, records: _Records) -> Iterator[EncodedBatch]:
        done = 0
        while done < len(rows):
            count, encoded = records.encoded(rows[done:], self._batch_bytes)
            yield EncodedBatch(at, count, encoded)
            done += count


class _Records:
    """The columns that become records."""

    def __init__(self, columns: dict[str, pa.Array], count: int) -> None:
        self.keys = Blobs(columns.get("key"), count)
        self._values = Blobs(columns["value"], count)
        headers = columns.get("headers")
        if headers is None:
            self._header_ends = np.zeros(count + 1, np.int32)
            self._names, self._contents = Blobs(None, 0), Blobs(None, 0)
            return
        self._header_ends = np.zeros(count + 1, np.int32)
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        np.cumsum(lengths, out=self._header_ends[1:])
        pairs = headers.flatten()
        self._names = Blobs(pairs.field("key"), len(pairs))
        self._contents = Blobs(pairs.field("value"), len(pairs))
        if not self._names.valid.all():
            raise RowsError("a header whose key is null")

    def encoded(self, rows: Array, bytes_max: int) -> tuple[int, bytes]:
        out = np.empty(max(bytes_max, self._size_of(int(rows[0]))), np.uint8)
        count, size_bytes = encode_records(
            rows,
            bytes_max,
            self.keys.ends,
            self.keys.valid,
            self.keys.data,
            self._values.ends,
            self._values.valid,
            self._values.data,
            self._header_ends,
            self._names.ends,
            self._names.data,
            self._contents.ends,
            self._contents.valid,
            self._contents.data,
            out,
        )
        return int(count), out[:size_bytes].tobytes()

    def _size_of(self, row: int) -> int:
        """Room enough for one record."""
        first, end = int(self._header_ends[row]), int(self._header_ends[row + 1])
        size = RECORD_OVERHEAD_BYTES + HEADER_OVERHEAD_BYTES * (end - first)
        for blobs, low, high in (
            (self.keys, row, row + 1),
            (self._values, row, row + 1),
            (self._names, first, end),
            (self._contents, first, end),
        ):
            size += int(blobs.ends[high]) - int(blobs.ends[low])
        return size

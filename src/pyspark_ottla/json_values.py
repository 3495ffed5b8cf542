"""JSON values to typed columns, parsed by Arrow: many at once, one per line.

Arrow stops at the first value that it can't parse. In most cases it says which one that is; then the values before it
are parsed by themselves and those after it as well, so that all are parsed about twice however many are malformed. In
the others (a number that is too large for its type, a time that is none) they are halved until it is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from pyspark_ottla.blobs import Blobs
from pyspark_ottla.options import OptionsError
from pyspark_ottla.value_kernels import frame_json

__all__ = ["JsonValues"]

LINE_BYTES_MIN: Final = 3
"""Of a value that is left out, and its end."""
PIECE_ROWS: Final = 1_000
"""Values that are parsed at once. With more, the search for malformed ones costs more; with fewer, each call does."""
ROW: Final = re.compile(r"in row (\d+)$")
PARSED: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_timestamp,
    pa.types.is_date32,
    pa.types.is_decimal,
)

Array = np.ndarray[Any, Any]


class JsonValues:
    """Parses objects of one type. A field that is missing is null; one that is not in the type is left out."""

    def __init__(self, kind: pa.DataType) -> None:
        _check(kind, "value")
        self._kind = kind
        self._schema = pa.schema([pa.field(field.name, _parsed_as(field.type)) for field in kind])
        self._nulls = pa.Table.from_arrays([pa.nulls(1, field.type) for field in self._schema], schema=self._schema)

    def parse(self, values: Blobs) -> tuple[pa.Array, Array]:
        """The values, and which of them are malformed."""
        rows = len(values.valid)
        lines = np.empty(values.size_bytes + LINE_BYTES_MIN * rows, np.uint8)
        ends, bad = np.empty(rows + 1, np.int64), np.zeros(rows, np.uint8)
        frame_json(values.ends, values.valid, values.data, lines, ends, bad)
        tables = list(self._tables(pa.py_buffer(lines), ends, bad))
        table = pa.concat_tables(tables) if tables else self._schema.empty_table()
        columns = [
            _as(column.combine_chunks(), field.type) for column, field in zip(table.columns, self._kind, strict=True)
        ]
        is_null = pa.array((values.valid == 0) | (bad != 0))
        return pa.StructArray.from_arrays(columns, fields=list(self._kind), mask=is_null), bad.astype(bool)

    def _tables(self, lines: pa.Buffer, ends: Array, bad: Array) -> Iterator[pa.Table]:
        """In the order of the lines. Those that turn out to be malformed are marked in `bad`, and null."""
        pending = [(start, min(start + PIECE_ROWS, len(bad))) for start in range(0, len(bad), PIECE_ROWS)][::-1]
        broken = -1
        while pending:
            start, end = pending.pop()
            if start == end:
                continue
            if start == broken:
                bad[start] = 1
                yield self._nulls
                continue
            try:
                yield self._table(lines.slice(int(ends[start]), int(ends[end] - ends[start])))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                named = ROW.search(str(error))
                if named is not None or end - start == 1:
                    broken = start + (0 if named is None else int(named[1]))
                    pending += [(broken + 1, end), (broken, broken + 1), (start, broken)]
                else:
                    middle = (start + end) // 2
                    pending += [(middle, end), (start, middle)]

    def _table(self, lines: pa.Buffer) -> pa.Table:
        """In one block: what is within a value is never taken for the end of it."""
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
        )
        for column, field in zip(table.columns, self._kind, strict=True):
            _as(column, field.type)
        return table


def _check(kind: pa.DataType, path: str) -> None:
    if pa.types.is_struct(kind):
        for field in kind:
            _check(field.type, f"{path}.{field.name}")
    elif pa.types.is_list(kind):
        _check(kind.value_type, f"{path}[]")
    elif not any(is_one(kind) for is_one in PARSED):
        raise OptionsError(f"value.schema: {path} can't be read from JSON as {kind}")


def _parsed_as(kind: pa.DataType) -> pa.DataType:
    """What Arrow's parser is asked for: it takes dates for numbers only."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _parsed_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _parsed_as(kind.value_type)))
    return pa.string() if pa.types.is_date32(kind) else kind


def _as(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)

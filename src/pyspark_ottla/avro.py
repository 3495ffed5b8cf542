"""Avro values to typed columns.

The schema is compiled to a program for `value_kernels.decode_avro`, with one column per field in the order in which a
value has them; the columns are then put together to Arrow's nested arrays. Records, arrays, maps, enums, fixed, the
primitive types and the logical ones of Spark's own Avro source are decoded, and unions of null and one type. Other
unions, and records that contain themselves, are refused: they have no type in Spark, or none that is fixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ottla import value_kernels as ops
from pyspark_ottla.blobs import Blobs
from pyspark_ottla.options import OptionsError
from pyspark_ottla.value_kernels import decimals, decode_avro, gather

__all__ = ["AvroSchema", "AvroValues"]

NO_OWNER: Final = -1
ANY_SCHEMA: Final = -1
DECIMAL_BYTES_MAX: Final = 16
DECIMAL_DIGITS_MAX: Final = 38
PRIMITIVES: Final[dict[str, tuple[int, int, DataType]]] = {
    "boolean": (ops.BOOL, 0, BooleanType()),
    "int": (ops.LONG, 32, IntegerType()),
    "long": (ops.LONG, 64, LongType()),
    "float": (ops.FLOAT, 0, FloatType()),
    "double": (ops.DOUBLE, 0, DoubleType()),
    "bytes": (ops.BYTES, 0, BinaryType()),
    "string": (ops.STRING, 0, StringType()),
}
TIMES: Final[dict[str, tuple[DataType, int]]] = {
    "timestamp-millis": (TimestampType(), 1_000),
    "timestamp-micros": (TimestampType(), 1),
    "local-timestamp-millis": (TimestampNTZType(), 1_000),
    "local-timestamp-micros": (TimestampNTZType(), 1),
}

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class _Node:
    """One column, and those below it."""

    column: int
    kind: DataType
    children: list[_Node] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    scale_up: int = 1
    """What numbers are multiplied by: times in milliseconds."""


class AvroSchema:
    """A schema, compiled."""

    def __init__(self, text: str) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._instructions: list[list[int]] = []
        self.owners: list[int] = []
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise OptionsError(f"value.schema: not an Avro schema: {error}") from error
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise OptionsError("value.schema: an Avro schema of a record is needed")
        self.root = self._compile(parsed, NO_OWNER, "", "value")
        self._emit(ops.END)
        self.program = np.array(self._instructions, np.int64)

    @property
    def kind(self) -> StructType:
        assert isinstance(self.root.kind, StructType)
        return self.root.kind

    def _emit(self, op: int, column: int = 0, argument: int = 0, target: int = 0, last: int = 0) -> int:
        self._instructions.append([op, column, argument, target, last])
        return len(self._instructions) - 1

    def _column(self, owner: int) -> int:
        self.owners.append(owner)
        return len(self.owners) - 1

    def _compile(self, schema: Any, owner: int, namespace: str, path: str) -> _Node:
        if isinstance(schema, list):
            return self._union(schema, owner, namespace, path)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return self._leaf({"type": schema}, owner, path)
            return self._compile(self._find(schema, namespace, path), owner, namespace, path)
        if not isinstance(schema, dict) or "type" not in schema:
            raise OptionsError(f"value.schema: {path} has no type")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._compile(kind, owner, namespace, path)
        composite: dict[str, Callable[[dict[str, Any], int, str, str], _Node]] = {
            "record": self._record,
            "array": self._array,
            "map": self._map,
            "enum": self._enum,
            "fixed": self._fixed,
        }
        if kind in composite:
            return composite[kind](schema, owner, namespace, path)
        if kind in PRIMITIVES:
            return self._leaf(schema, owner, path)
        return self._compile(self._find(kind, namespace, path), owner, namespace, path)

    # Names

    def _find(self, name: str, namespace: str, path: str) -> Any:
        for candidate in (f"{namespace}.{name}", name):
            if candidate in self._named:
                return self._named[candidate]
        raise OptionsError(f"value.schema: {path} is of type {name}, which is not known")

    def _define(self, schema: dict[str, Any], namespace: str) -> tuple[str, str]:
        """The full name of a record, enum or fixed, and the namespace of what is in it."""
        name = str(schema.get("name", ""))
        space = str(schema.get("namespace", namespace)) if "." not in name else name.rpartition(".")[0]
        full = name if "." in name or not space else f"{space}.{name}"
        self._named[full] = schema
        return full, space

    # Types

    def _leaf(self, schema: dict[str, Any], owner: int, path: str) -> _Node:
        op, argument, kind = PRIMITIVES[schema["type"]]
        logical = schema.get("logicalType")
        node = _Node(self._column(owner), kind)
        if logical == "date" and op == ops.LONG:
            node.kind = DateType()
        elif logical in TIMES and argument == 64:
            node.kind, node.scale_up = TIMES[logical]
        elif logical == "decimal" and op == ops.BYTES:
            node.kind, argument = _decimal(schema, path), DECIMAL_BYTES_MAX
        self._emit(op, node.column, argument)
        return node

    def _fixed(self, schema: dict[str, Any], owner: int, namespace: str, path: str) -> _Node:
        self._define(schema, namespace)
        size = schema.get("size")
        if not isinstance(size, int) or size < 1:
            raise OptionsError(f"value.schema: {path} is fixed, but of no size")
        is_decimal = schema.get("logicalType") == "decimal" and size <= DECIMAL_BYTES_MAX
        kind = _decimal(schema, path) if is_decimal else BinaryType()
        node = _Node(self._column(owner), kind)
        self._emit(ops.FIXED, node.column, size)
        return node

    def _enum(self, schema: dict[str, Any], owner: int, namespace: str, path: str) -> _Node:
        self._define(schema, namespace)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols:
            raise OptionsError(f"value.schema: {path} is an enum without symbols")
        node = _Node(self._column(owner), StringType(), symbols=tuple(map(str, symbols)))
        self._emit(ops.ENUM, node.column, len(symbols))
        return node

    def _record(self, schema: dict[str, Any], owner: int, namespace: str, path: str) -> _Node:
        name, inner = self._define(schema, namespace)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise OptionsError(f"value.schema: {path} is a record without fields")
        if name in self._open:
            raise OptionsError(f"value.schema: {path}: {name} contains itself")
        self._open.add(name)
        column = self._column(owner)
        self._emit(ops.STRUCT, column)
        children = [self._compile(each["type"], owner, inner, f"{path}.{each['name']}") for each in fields]
        self._open.remove(name)
        kind = StructType(
            [StructField(str(each["name"]), child.kind) for each, child in zip(fields, children, strict=True)]
        )
        return _Node(column, kind, children)

    def _array(self, schema: dict[str, Any], owner: int, namespace: str, path: str) -> _Node:
        column = self._column(owner)
        begin = self._emit(ops.ARRAY, column)
        item = self._compile(schema.get("items"), column, namespace, f"{path}[]")
        self._close_loop(begin, column)
        return _Node(column, ArrayType(item.kind), [item])

    def _map(self, schema: dict[str, Any], owner: int, namespace: str, path: str) -> _Node:
        column = self._column(owner)
        begin = self._emit(ops.ARRAY, column)
        key = self._leaf({"type": "string"}, column, path)
        content = self._compile(schema.get("values"), column, namespace, f"{path}[]")
        self._close_loop(begin, column)
        return _Node(column, MapType(StringType(), content.kind), [key, content])

    def _close_loop(self, begin: int, column: int) -> None:
        end = self._emit(ops.ARRAY_END, column, target=begin + 1)
        self._instructions[begin][3] = end + 1

    def _union(self, schema: list[Any], owner: int, namespace: str, path: str) -> _Node:
        others = [each for each in schema if each != "null"]
        if len(schema) != 2 or len(others) != 1:
            raise OptionsError(f"value.schema: {path}: of unions only those of null and one type can be read")
        first = len(self.owners)
        branch = self._emit(ops.NULLABLE, first, schema.index("null"))
        node = self._compile(others[0], owner, namespace, path)
        self._instructions[branch][3] = len(self._instructions)
        self._instructions[branch][4] = len(self.owners) - 1
        return node


def _decimal(schema: dict[str, Any], path: str) -> DecimalType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 < precision <= 38 or not isinstance(scale, int):
        raise OptionsError(f"value.schema: {path} is a decimal of a precision that can't be read")
    return DecimalType(precision, scale)


class AvroValues:
    """Decodes values of one schema. `schema_id`: they are framed as Confluent's clients do it."""

    def __init__(self, text: str, kind: pa.DataType, *, is_framed: bool, schema_id: int | None) -> None:
        self._text, self._kind = text, kind
        self._is_framed = is_framed
        self._schema_id = ANY_SCHEMA if schema_id is None else schema_id
        self._schema: AvroSchema | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schema": None}

    def parse(self, values: Blobs) -> tuple[pa.Array, Array]:
        """The values, and which of them are malformed."""
        if self._schema is None:
            self._schema = AvroSchema(self._text)
        schema, rows = self._schema, len(values.valid)
        room = np.array([rows if owner == NO_OWNER else values.size_bytes + 1 for owner in schema.owners], np.int64)
        bases = np.concatenate([np.zeros(1, np.int64), np.cumsum(room)[:-1]])
        counts = np.zeros(len(room), np.int64)
        numbers, lengths = np.empty(int(room.sum()), np.int64), np.empty(int(room.sum()), np.int64)
        bad = np.zeros(rows, np.uint8)
        decode_avro(
            values.ends,
            values.valid,
            values.data,
            self._is_framed,
            self._schema_id,
            schema.program,
            np.array(schema.owners, np.int64),
            bases,
            counts,
            numbers,
            lengths,
            bad,
        )
        columns = _Columns(values.data, bases, counts, numbers, lengths)
        return columns.array(schema.root, self._kind), bad.astype(bool)


class _Columns:
    """What was decoded, on its way to Arrow."""

    def __init__(self, data: Array, bases: Array, counts: Array, numbers: Array, lengths: Array) -> None:
        self._data = data
        self._slices = [slice(int(base), int(base + count)) for base, count in zip(bases, counts, strict=True)]
        self._numbers, self._lengths = numbers, lengths

    def array(self, node: _Node, kind: pa.DataType) -> pa.Array:
        numbers = self._numbers[self._slices[node.column]]
        lengths = self._lengths[self._slices[node.column]]
        nulls = lengths < 0
        if pa.types.is_struct(kind):
            children = [self.array(child, kind.field(index).type) for index, child in enumerate(node.children)]
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(nulls))
        if pa.types.is_list(kind):
            item = self.array(node.children[0], kind.value_type)
            return pa.Array.from_buffers(kind, len(lengths), [_validity(nulls), _ends(lengths)], children=[item])
        if pa.types.is_map(kind):
            key, content = node.children
            pairs = pa.StructArray.from_arrays(
                [self.array(key, kind.key_type), self.array(content, kind.item_type)],
                fields=[kind.key_field, kind.item_field],
            )
            return pa.Array.from_buffers(kind, len(lengths), [_validity(nulls), _ends(lengths)], children=[pairs])
        if node.symbols:
            chosen = pa.array(np.where(nulls, 0, numbers), mask=nulls)
            return pa.DictionaryArray.from_arrays(chosen, pa.array(node.symbols, pa.string())).cast(kind)
        if pa.types.is_binary(kind) or pa.types.is_string(kind):
            return self._blobs(kind, numbers, lengths, nulls)
        if pa.types.is_decimal(kind):
            return self._decimals(kind, numbers, lengths, nulls)
        return _numbers(kind, numbers, nulls, node.scale_up)

    def _blobs(self, kind: pa.DataType, starts: Array, lengths: Array, nulls: Array) -> pa.Array:
        ends = np.empty(len(lengths) + 1, np.int32)
        out = np.empty(int(lengths[~nulls].sum()), np.uint8)
        gather(self._data, starts, lengths, ends, out)
        buffers = [_validity(nulls), pa.py_buffer(ends), pa.py_buffer(out)]
        return pa.Array.from_buffers(kind, len(lengths), buffers)

    def _decimals(self, kind: pa.DataType, starts: Array, lengths: Array, nulls: Array) -> pa.Array:
        """One that has more digits than its type is null, as in Spark."""
        words = np.empty((len(lengths), 2), np.int64)
        decimals(self._data, starts, lengths, words)
        wide = pa.decimal128(DECIMAL_DIGITS_MAX, kind.scale)
        found = pa.Array.from_buffers(wide, len(lengths), [_validity(nulls), pa.py_buffer(words)])
        return pc.cast(pc.if_else(_fits(found, kind), found, pa.scalar(None, wide)), kind)


def _numbers(kind: pa.DataType, numbers: Array, nulls: Array, scale_up: int) -> pa.Array:
    numbers = np.where(nulls, 0, numbers)
    if pa.types.is_boolean(kind):
        return pa.array(numbers.astype(bool), mask=nulls)
    if pa.types.is_float64(kind):
        return pa.array(numbers.view(np.float64), mask=nulls)
    if pa.types.is_float32(kind):
        return pa.array(numbers.astype(np.uint32).view(np.float32), mask=nulls)
    if pa.types.is_int64(kind):
        return pa.array(numbers, mask=nulls)
    if pa.types.is_timestamp(kind):
        return pa.array(numbers * scale_up, mask=nulls).cast(kind)
    return pa.array(numbers.astype(np.int32), mask=nulls).cast(kind)


def _fits(found: pa.Array, kind: pa.DataType) -> pa.Array:
    limit = pa.scalar(Decimal(10**kind.precision - 1).scaleb(-kind.scale), found.type)
    return pc.less_equal(pc.abs(found), limit)


def _validity(nulls: Array) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def _ends(lengths: Array) -> pa.Buffer:
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=ends[1:])
    return pa.py_buffer(ends)

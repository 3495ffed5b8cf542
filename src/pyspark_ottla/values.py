"""`value.format`: the column `value` with a type, decoded from JSON, Avro or text.

What can't be decoded is null, and its bytes are in the column `_corrupt_record` (mode PERMISSIVE), or it is an error
that says where it is (FAILFAST). Values that are null are null in both columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pyspark_ottla.blobs import Blobs
from pyspark_ottla.options import Options, OptionsError
from pyspark_ottla.value_kernels import invalid_texts

__all__ = ["BINARY", "CORRUPT", "MalformedValueError", "TypedValues", "ValueOptions", "columns"]

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
CORRUPT: Final = "_corrupt_record"
BINARY: Final = "binary"
FORMATS: Final = ("binary", "string", "json", "avro")
PERMISSIVE: Final = "permissive"
MODES: Final = (PERMISSIVE, "failfast")
FRAMINGS: Final = ("none", "confluent")

Array = np.ndarray[Any, Any]


class MalformedValueError(ValueError):
    """A value that is not what the query says it is, in mode FAILFAST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    format: str
    schema: str | None
    is_permissive: bool
    is_framed: bool
    schema_id: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ValueOptions:
        options = Options(given)
        chosen = {
            name: (options.text(name) or allowed[0]).lower()
            for name, allowed in (("value.format", FORMATS), ("mode", MODES), ("value.framing", FRAMINGS))
        }
        for name, allowed in (("value.format", FORMATS), ("mode", MODES), ("value.framing", FRAMINGS)):
            if chosen[name] not in allowed:
                raise OptionsError(f"{name}: {chosen[name]!r} is not one of {', '.join(allowed)}")
        schema = options.text("value.schema")
        if (schema is not None) != (chosen["value.format"] in ("json", "avro")):
            raise OptionsError("value.schema goes with value.format json or avro, which need it")
        return cls(
            format=chosen["value.format"],
            schema=schema,
            is_permissive=chosen["mode"] == PERMISSIVE,
            is_framed=chosen["value.framing"] == "confluent",
            schema_id=options.number("value.schema.id"),
        )


def columns(options: ValueOptions, includes_headers: bool) -> str:
    """The columns of the source, in SQL."""
    kinds = {**COLUMNS, "value": _kind(options)}
    if includes_headers:
        kinds["headers"] = "array<struct<key: string, value: binary>>"
    if options.format != BINARY and options.is_permissive:
        kinds[CORRUPT] = "binary"
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def _kind(options: ValueOptions) -> str:
    if options.schema is None:
        return options.format
    text = options.schema.strip()
    if text.startswith("{"):
        return _in_sql(_parsed(text, options.format))
    if options.format == "avro":
        raise OptionsError("value.schema: Avro values need an Avro schema, in JSON")
    return text if text.lower().startswith("struct<") else f"struct<{text}>"


def _parsed(text: str, format_name: str) -> DataType:
    """Of a schema in JSON: Spark's or Avro's."""
    try:
        found = json.loads(text)
        if found.get("type") == "struct" and format_name != "avro":
            return StructType.fromJson(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionsError(f"value.schema: {error}") from error
    from pyspark_ottla.avro import AvroSchema

    return AvroSchema(text).kind


def _in_sql(kind: DataType) -> str:
    """Names in quotes, and everything nullable: nobody keeps a producer from leaving a field out."""
    if isinstance(kind, StructType):
        fields = (f"`{field.name.replace('`', '``')}`: {_in_sql(field.dataType)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_in_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_in_sql(kind.keyType)}, {_in_sql(kind.valueType)}>"
    return str(kind.simpleString())


class _Format(Protocol):
    def parse(self, values: Blobs) -> tuple[pa.Array, Array]: ...


class TypedValues:
    """Replaces the column `value` of what was read."""

    def __init__(self, options: ValueOptions, schema: StructType) -> None:
        self._is_permissive = options.is_permissive
        kind = schema["value"].dataType
        _check_nullable(kind, "value")
        self._format = _format(options, to_arrow_type(kind, timezone="UTC"))

    def typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        at = batch.schema.get_field_index("value")
        raw = batch.column(at)
        values, bad = self._format.parse(Blobs(raw, batch.num_rows))
        if not self._is_permissive:
            if bad.any():
                raise MalformedValueError(_where(batch, int(np.flatnonzero(bad)[0])))
            return batch.set_column(at, pa.field("value", values.type), values)
        corrupt = pa.nulls(batch.num_rows, pa.binary())
        if bad.any():
            corrupt = pc.if_else(pa.array(bad), raw, corrupt)
        return batch.set_column(at, pa.field("value", values.type), values).append_column(CORRUPT, corrupt)


def _where(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return (
        f"the value at offset {offset} of {topic}-{partition} is malformed. Without mode FAILFAST it would be null, and"
        f" in the column {CORRUPT}"
    )


def _format(options: ValueOptions, kind: pa.DataType) -> _Format:
    if options.format == "json":
        from pyspark_ottla.json_values import JsonValues

        return JsonValues(kind)
    if options.format == "avro":
        from pyspark_ottla.avro import AvroValues

        assert options.schema is not None
        return AvroValues(options.schema, kind, is_framed=options.is_framed, schema_id=options.schema_id)
    return _Texts()


class _Texts:
    def parse(self, values: Blobs) -> tuple[pa.Array, Array]:
        bad = np.zeros(len(values.valid), np.uint8)
        invalid_texts(values.ends, values.valid, values.data, bad)
        is_null = (values.valid == 0) | (bad != 0)
        buffers = [
            pa.py_buffer(np.packbits(~is_null, bitorder="little")),
            pa.py_buffer(np.ascontiguousarray(values.ends)),
            pa.py_buffer(values.data),
        ]
        return pa.Array.from_buffers(pa.string(), len(bad), buffers), bad.astype(bool)


def _check_nullable(kind: DataType, path: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check_field(field, path)
    elif isinstance(kind, ArrayType):
        _check_nullable(kind.elementType, f"{path}[]")


def _check_field(field: StructField, path: str) -> None:
    if not field.nullable:
        raise OptionsError(f"value.schema: {path}.{field.name} can't be NOT NULL: nobody keeps producers from that")
    _check_nullable(field.dataType, f"{path}.{field.name}")

"""Avro values to columns, written and read by fastavro."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from pyspark_ottla.avro import AvroSchema, AvroValues
from pyspark_ottla.blobs import Blobs
from pyspark_ottla.options import OptionsError

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": ["double", "null"]},
        {"name": "weight", "type": "float"},
        {"name": "is_new", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}},
        {"name": "other", "type": ["null", "Colour"]},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": ["null", {"type": "map", "values": "long"}]},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "article", "type": "string"},
                        {"name": "sizes", "type": {"type": "array", "items": "int"}},
                    ],
                },
            },
        },
        {"name": "last", "type": ["null", "shop.Line"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
    ],
}
TEXT = json.dumps(SCHEMA)
PARSED = fastavro.parse_schema(SCHEMA)

texts = st.text(max_size=8)
lines = st.fixed_dictionaries({"article": texts, "sizes": st.lists(st.integers(-9, 9), max_size=3)})
colours = st.sampled_from(["RED", "GREEN"])
times = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-(2**31), 2**31 - 1),
        "name": st.none() | texts,
        "price": st.none() | st.floats(allow_nan=False),
        "weight": st.floats(allow_nan=False, width=32),
        "is_new": st.booleans(),
        "raw": st.binary(max_size=20),
        "colour": colours,
        "other": st.none() | colours,
        "digest": st.binary(min_size=4, max_size=4),
        "tags": st.lists(st.none() | texts, max_size=3),
        "counts": st.none() | st.dictionaries(texts, st.integers(-(2**40), 2**40), max_size=3),
        "lines": st.lists(lines, max_size=3),
        "last": st.none() | lines,
        "at": times,
        "day": st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
        "sum": st.decimals(-(10**16), 10**16, places=3, allow_nan=False, allow_infinity=False),
    }
)


def encoded(value: dict[str, Any], schema: Any = PARSED) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def parsed(
    values: list[bytes | None], text: str = TEXT, *, framed: bool = False, schema_id: int | None = None
) -> tuple[list[Any], list[bool]]:
    kind = to_arrow_type(AvroSchema(text).kind, timezone="UTC")
    array, bad = AvroValues(text, kind, is_framed=framed, schema_id=schema_id).parse(
        Blobs(pa.array(values, pa.binary()), len(values))
    )
    array.validate(full=True)
    assert array.type == kind
    return array.to_pylist(maps_as_pydicts="strict"), bad.tolist()


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | orders, max_size=12), st.integers(0, 3))
def test_every_value_is_what_fastavro_wrote(values: list[dict[str, Any] | None], skipped: int) -> None:
    several = [None if value is None else encoded(value) for value in values]

    rows, bad = parsed(several[skipped:])

    assert rows == values[skipped:]
    assert not any(bad)


@settings(max_examples=200, deadline=None)
@given(orders, orders, st.data())
def test_a_damaged_value_is_malformed_or_another_one_but_never_touches_its_neighbours(
    value: dict[str, Any], neighbour: dict[str, Any], data: st.DataObject
) -> None:
    whole = encoded(value)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ 1 << data.draw(st.integers(0, 7))]) + whole[at + 1 :]
    damaged = data.draw(st.sampled_from([changed, whole[:at], whole + b"\x00"]))

    rows, bad = parsed([encoded(neighbour), damaged, encoded(neighbour)])

    assert (rows[0], rows[2], bad[0], bad[2]) == (neighbour, neighbour, False, False)
    if damaged is not changed:
        assert (rows[1], bad[1]) == (None, True)


def test_blocks_that_say_their_size_are_read() -> None:
    text = record({"name": "a", "type": {"type": "array", "items": "int"}})
    two_blocks = bytes([3, 4, 2, 4, 2, 6, 0])  # -2 items in 2 bytes: 1, 2; then 1 item: 3

    assert parsed([two_blocks], text) == ([{"a": [1, 2, 3]}], [False])


def test_the_frame_of_confluent_and_its_number() -> None:
    text = record({"name": "a", "type": "int"})
    values: list[bytes | None] = [
        b"\x00\x00\x00\x00\x07\x02",
        b"\x00\x00\x00\x01\x07\x02",
        b"\x01\x00\x00\x00\x07\x02",
        b"\x02",
    ]

    assert parsed(values, text, framed=True)[1] == [False, False, True, True]
    assert parsed(values, text, framed=True, schema_id=7) == ([{"a": 1}, None, None, None], [False, True, True, True])


def test_a_decimal_with_too_many_digits_is_null() -> None:
    text = record({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}})
    schema = json.loads(text.replace('"precision": 4', '"precision": 9'))

    values = [encoded({"a": Decimal(number)}, schema) for number in ("99.99", "-99.99", "100.00")]
    assert parsed([*values], text)[0] == [{"a": Decimal("99.99")}, {"a": Decimal("-99.99")}, {"a": None}]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "not an Avro schema"),
        ('"string"', "of a record"),
        (record({"name": "a", "type": ["int", "string"]}), "value.a: of unions"),
        (record({"name": "a", "type": "Unknown"}), "value.a is of type Unknown"),
        (record({"name": "a", "type": {"type": "array", "items": "R"}}), r"value.a\[\]: R contains itself"),
        (record({"name": "a", "type": {"type": "fixed", "name": "F", "size": 0}}), "value.a is fixed"),
        (record(), "without fields"),
        (record({"name": "a", "type": {"type": "bytes", "logicalType": "decimal"}}), "value.a is a decimal"),
    ],
)
def test_a_schema_that_can_not_be_read_is_named(text: str, named: str) -> None:
    with pytest.raises(OptionsError, match=named):
        AvroSchema(text)

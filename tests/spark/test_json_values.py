"""JSON values to columns, against Python's own parser."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_ottla.blobs import Blobs
from pyspark_ottla.json_values import JsonValues
from pyspark_ottla.options import OptionsError

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("is_new", pa.bool_()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("at", pa.struct([("x", pa.int64()), ("day", pa.date32())])),
    ]
)
EMPTY = {"id": None, "name": None, "price": None, "is_new": None, "tags": None, "at": None}

texts = st.text(max_size=12)
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | texts,
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "is_new": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "at": st.none() | st.fixed_dictionaries({"x": st.integers(-5, 5)}, optional={"other": texts}),
        "unknown": st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3)),
    },
)
MALFORMED = [
    b"", b" ", b"{", b"}", b"{}}", b"{}{}", b'{"id":1}{"id":2}', b"5", b"null", b"[]", b'"text"', b'{"id":"1"}',
    b'{"id":1.5}', b'{"id":99999999999999999999}', b'{"name":5}', b'{"name":"\xff"}', b'{"price":"1"}', b'{"id":1,}',
    b'{"is_new":1}', b'{"tags":[1]}', b'{"tags":{}}', b'{"at":{"x":"1"}}', b'{"at":{"day":"tomorrow"}}', b'{"id":1',
    b'{"name":"a\nb"}', b'{"id":1}\n{"id":2}', b"{]", b'{"x":' + b"[" * 300 + b"]" * 300 + b"}", b'{"name":"\\"}',
    b'{"id":1,"id":2}', b"\x00", b'{"a":{]}}',
]  # fmt: skip


def parsed(values: list[bytes | None], kind: pa.DataType = KIND) -> tuple[list[Any], list[bool]]:
    array, bad = JsonValues(kind).parse(Blobs(pa.array(values, pa.binary()), len(values)))
    array.validate(full=True)
    assert array.type == kind
    return array.to_pylist(), bad.tolist()


def expected(value: dict[str, Any]) -> dict[str, Any]:
    found = {**EMPTY, **{name: content for name, content in value.items() if name in EMPTY}}
    if found["at"] is not None:
        found["at"] = {"x": found["at"]["x"], "day": None}
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | objects | st.sampled_from(MALFORMED), max_size=25), st.sampled_from([None, 1]))
def test_every_value_is_its_row_and_what_is_malformed_is_found(
    values: list[dict[str, Any] | bytes | None], indent: int | None
) -> None:
    encoded = [json.dumps(value, indent=indent).encode() if isinstance(value, dict) else value for value in values]

    rows, bad = parsed(encoded)

    assert bad == [isinstance(value, bytes) for value in values]
    assert rows == [expected(value) if isinstance(value, dict) else None for value in values]


@pytest.mark.parametrize("value", MALFORMED)
def test_a_malformed_value_does_not_touch_its_neighbours(value: bytes) -> None:
    rows, bad = parsed([b'{"id":1}', value, b'{"id":2}'])

    assert bad == [False, True, False]
    assert [row and row["id"] for row in rows] == [1, None, 2]


def test_a_malformed_value_costs_two_passes_over_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    table = JsonValues._table

    def counted(parser: JsonValues, lines: pa.Buffer) -> pa.Table:
        passes.append(lines.size)
        return table(parser, lines)

    monkeypatch.setattr(JsonValues, "_table", counted)
    values: list[bytes | None] = [b'{"id":%d}' % number for number in range(3_000)]
    for number in range(0, 3_000, 30):
        values[number] = b'{"id": "not a number"}'

    _, bad = parsed(values)

    assert sum(bad) == 100
    assert len(passes) <= 3 + 2 * 100


def test_times_dates_and_decimals() -> None:
    kind = pa.struct([("t", pa.timestamp("us", tz="UTC")), ("d", pa.date32()), ("n", pa.decimal128(10, 2))])
    rows, bad = parsed([b'{"t":"2026-01-02T03:04:05.678Z","d":"2026-01-02","n":1.25}', b'{"t":"then"}'], kind)

    assert rows[0]["t"].isoformat() == "2026-01-02T03:04:05.678000+00:00"
    assert (rows[0]["d"].isoformat(), str(rows[0]["n"])) == ("2026-01-02", "1.25")
    assert bad == [False, True]


def test_a_type_that_json_has_not_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"value.a\[\] can't be read from JSON as binary"):
        JsonValues(pa.struct([("a", pa.list_(pa.binary()))]))

"""What `produce` makes of lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_input import InputRecord, line_parser, parse_json
from ottla.cli.record_output import OutputRecord, json_formatter


def test_a_line_is_a_value() -> None:
    assert line_parser()(b"a b") == InputRecord(value=b"a b")


def test_every_record_gets_the_given_key() -> None:
    assert line_parser(key="k")(b"v") == InputRecord(key=b"k", value=b"v")


def test_a_key_ends_at_the_first_separator() -> None:
    assert line_parser(separator="::")(b"k::v::w") == InputRecord(key=b"k", value=b"v::w")


def test_a_line_without_the_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="no separator ':'"):
        line_parser(separator=":")(b"v")


def test_json_holds_everything_a_record_has() -> None:
    line = b'{"key": "k", "value": "v", "headers": {"a": "1", "b": null}, "partition": 2, "timestamp_ms": 5}'

    assert parse_json(line) == InputRecord(
        key=b"k", value=b"v", headers=(("a", b"1"), ("b", None)), partition=2, timestamp_ms=5
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [("null", None), ('"text"', b"text"), ('""', b""), ("7", b"7"), ('{"a": [1, "\u00e9"]}', '{"a":[1,"é"]}'.encode())],
)
def test_a_json_value_is_text_or_json_or_nothing(value: str, expected: bytes | None) -> None:
    assert parse_json(f'{{"value": {value}}}'.encode()).value == expected


def test_bytes_come_as_base64() -> None:
    assert parse_json(b'{"value_base64": "AP8="}').value == b"\x00\xff"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"[1]", "expected an object"),
        (b'{"value_base64": "!"}', "value_base64 is not base64"),
        (b'{"value_base64": 5}', "value_base64 is not base64"),
        (b'{"headers": "a"}', "headers must be"),
        (b'{"headers": [{"value": "a"}]}', "headers must be"),
        (b'{"partition": "1"}', "partition must be a whole number"),
        (b'{"partition": true}', "partition must be a whole number"),
        (b"\xff", "not JSON"),
    ],
)
def test_bad_json_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(line)


data = st.none() | st.binary(max_size=40) | st.text(max_size=10).map(str.encode)


@given(
    key=data,
    value=data,
    headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=3),
    timestamp_ms=st.integers(0, 2**40),
)
def test_what_consume_prints_as_json_produce_reads_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int
) -> None:
    printed = json_formatter(
        OutputRecord(topic="t", partition=3, offset=9, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers)
    )

    assert json.loads(printed)["offset"] == 9
    assert parse_json(printed) == InputRecord(
        key=key, value=value, headers=tuple(headers), partition=3, timestamp_ms=timestamp_ms
    )

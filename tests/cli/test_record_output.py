"""How `consume` prints a record."""

import pytest

from ottla.cli.record_output import (
    OutputRecord,
    for_terminal,
    hex_formatter,
    template_formatter,
    text_formatter,
)
from ottla.cli.times import moment_text


def record(**changes: object) -> OutputRecord:
    fields: dict[str, object] = {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp_ms": 1_700_000_000_123,
        "key": b"k",
        "value": b"v",
        "headers": [("a", b"1"), ("b", None)],
    }
    return OutputRecord(**{**fields, **changes})  # type: ignore[arg-type]  # a test may change any field


def test_text_is_the_value_as_it_is() -> None:
    formatter = text_formatter(keys=False, headers=False, timestamps=False, offsets=False)

    assert formatter(record(value=b"\xff\x00")) == b"\xff\x00\n"


def test_text_has_a_column_for_each_thing_asked_for() -> None:
    formatter = text_formatter(keys=True, headers=True, timestamps=True, offsets=True)

    time = moment_text(1_700_000_000_123).encode()
    assert formatter(record()) == time + b"\tt-1:42\tk\ta=1,b=null\tv\n"


def test_what_is_missing_is_shown_as_null() -> None:
    formatter = text_formatter(keys=True, headers=False, timestamps=True, offsets=False)

    assert formatter(record(key=None, value=None, timestamp_ms=None)) == b"-\tnull\tnull\n"


def test_hex_shows_every_byte() -> None:
    lines = hex_formatter(record(value=b"hello\x00world, again", key=None)).decode().splitlines()

    assert lines[0].startswith("t-1:42 ")
    assert lines[0].endswith("key=null")
    assert lines[1:] == [
        "  00000000  68 65 6c 6c 6f 00 77 6f 72 6c 64 2c 20 61 67 61  hello.world, aga",
        "  00000010  69 6e                                            in",
    ]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{topic}/{partition}@{offset}", b"t/1@42\n"),
        (r"{key}\t{value}\n", b"k\tv\n"),
        (r"{key}\0", b"k\0"),
        (r"a\\n{size}", b"a\\n2\n"),
        ("{timestamp_ms} {headers}", b"1700000000123 a=1,b=null\n"),
        ("{value}{value}", b"vv\n"),
    ],
)
def test_templates(template: str, expected: bytes) -> None:
    assert template_formatter(template)(record()) == expected


def test_a_field_in_a_value_is_not_filled_in_again() -> None:
    assert template_formatter("{value} {key}")(record(value=b"{key}")) == b"{key} k\n"


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"\{colour\} is not a field: there are topic, partition"):
        template_formatter("{key} {colour}")


def test_a_terminal_is_not_sent_escape_codes() -> None:
    formatter = for_terminal(text_formatter(keys=True, headers=False, timestamps=False, offsets=False))

    assert formatter(record(value=b"\x1b[2J\xff\xc3\xa9")) == "k\t\\x1b[2J\\xffé\n".encode()

"""Moments, durations and places as people write them."""

import re
from datetime import datetime

import pytest

from ottla.cli.times import (
    Anchor,
    Position,
    duration_text,
    moment_text,
    parse_duration_ms,
    parse_moment_ms,
    parse_position,
)

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("250ms", 250), ("30s", 30_000), ("5m", 300_000), ("1.5h", 5_400_000), ("7d", 604_800_000), ("2 min", 120_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "5", "-5m", "5 parsecs", "m5"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|expected"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("now", NOW_MS),
        ("-5m", NOW_MS - 300_000),
        ("-1d", NOW_MS - 86_400_000),
        ("@1234", 1234),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20.500+01:00", NOW_MS + 500),
    ],
)
def test_moments(text: str, expected_ms: int) -> None:
    assert parse_moment_ms(text, NOW_MS) == expected_ms


def test_a_moment_without_a_zone_is_local() -> None:
    assert parse_moment_ms("2026-01-31T12:00:00", NOW_MS) == datetime(2026, 1, 31, 12).timestamp() * 1_000


def test_a_printed_moment_can_be_read_back() -> None:
    assert parse_moment_ms(moment_text(NOW_MS + 123), 0) == NOW_MS + 123


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Position(anchor=Anchor.BEGINNING)),
        ("earliest", Position(anchor=Anchor.BEGINNING)),
        ("end", Position(anchor=Anchor.END)),
        ("latest", Position(anchor=Anchor.END)),
        ("42", Position(anchor=Anchor.OFFSET, value=42)),
        ("-10", Position(anchor=Anchor.BEFORE_END, value=10)),
        ("-10s", Position(anchor=Anchor.TIME, value=NOW_MS - 10_000)),
        ("now", Position(anchor=Anchor.TIME, value=NOW_MS)),
    ],
)
def test_places(text: str, expected: Position) -> None:
    assert parse_position(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "--5m", "4.2", "2023-13-01", "@soon"])
def test_what_is_not_a_place_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a place: expected beginning, end")):
        parse_position(text, NOW_MS)


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (0, "0 s"),
        (40, "0.0 s"),
        (12_345, "12.3 s"),
        (250_000, "4m 10s"),
        (7_500_000, "2h 5m"),
        (273_600_000, "3d 4h"),
    ],
)
def test_durations_are_shown_with_two_figures(duration_ms: int, expected: str) -> None:
    assert duration_text(duration_ms) == expected

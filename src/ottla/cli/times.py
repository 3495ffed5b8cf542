"""Moments, durations and places in a log, as people write them.

    -5m  -36h  -7d           so long ago            2026-01-31T12:00:00Z   ISO 8601; without a zone, local time
    now                      this moment            @1769860800000         milliseconds since 1970

A place in a log is one of those (the first record at or after that moment), or `beginning`, `end`, an offset such as
`42`, or `-10` for the last ten records of each partition.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from ottla.config.units import parse_quantity

MOMENTS = "now, a time like 2026-01-31T12:00:00Z, a time ago like -5m or @MILLISECONDS"
_DURATION = re.compile(r"\d+(?:\.\d+)?\s*[a-z]+", re.IGNORECASE)


class Anchor(Enum):
    """What the number of a `Position` is counted from."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in every partition of a topic."""

    anchor: Anchor
    value: int = 0
    """The offset, the records before the end, or the moment in ms since 1970."""


def parse_duration_ms(text: str) -> int:
    """`250ms`, `30s`, `1.5h`, `7d`. ValueError if there is no unit: nobody remembers what a bare number meant."""
    if not _DURATION.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a duration like 500ms, 30s, 5m, 12h or 7d")
    return parse_quantity(text, "ms")


def parse_moment_ms(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return now_ms - parse_duration_ms(text[1:])
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        raise ValueError(f"{text!r} is not a moment: expected {MOMENTS}") from None


def parse_position(text: str, now_ms: int) -> Position:
    match text:
        case "beginning" | "earliest":
            return Position(anchor=Anchor.BEGINNING)
        case "end" | "latest":
            return Position(anchor=Anchor.END)
    if text.isdigit():
        return Position(anchor=Anchor.OFFSET, value=int(text))
    if text.startswith("-") and text[1:].isdigit():
        return Position(anchor=Anchor.BEFORE_END, value=int(text[1:]))
    try:
        return Position(anchor=Anchor.TIME, value=parse_moment_ms(text, now_ms))
    except ValueError:
        raise ValueError(f"{text!r} is not a place: expected beginning, end, an offset, -RECORDS, {MOMENTS}") from None


def moment_text(timestamp_ms: int) -> str:
    """Local time to the millisecond, with the zone so that it can be given back to us anywhere."""
    return datetime.fromtimestamp(timestamp_ms / 1_000).astimezone().isoformat(timespec="milliseconds")


def duration_text(duration_ms: float) -> str:
    """Two figures that matter: `0 s`, `12.3 s`, `4m 10s`, `2h 5m`, `3d 4h`."""
    seconds = duration_ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds else "0 s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3_600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes}m {int(seconds % 60)}s"
    if days == 0:
        return f"{hours}h {minutes % 60}m"
    return f"{days}d {hours % 24}h"

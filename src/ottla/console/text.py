"""Figures, sizes and times as people read them. All times are UTC, and say so where they stand alone."""

from __future__ import annotations

from datetime import UTC, datetime

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
NONE = "\N{EN DASH}"
MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400


def count(number: float | None) -> str:
    """1234567 → 1,234,567"""
    return NONE if number is None else f"{number:,.0f}"


def short(number: float | None) -> str:
    """1234567 → 1.2M, for places where every digit costs room."""
    if number is None:
        return NONE
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= limit:
            scaled = number / (1e3 if unit == "k" else limit)
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return f"{number:,.0f}"


def rate(per_s: float | None) -> str:
    if per_s is None:
        return NONE
    return f"{per_s:.1f}/s" if 0 < per_s < 10 else f"{short(per_s)}/s"


def size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return NONE
    scaled, unit = float(size_bytes), 0
    while scaled >= 1_024 and unit + 1 < len(UNITS):
        scaled, unit = scaled / 1_024, unit + 1
    return f"{scaled:.0f} {UNITS[unit]}" if unit == 0 or scaled >= 100 else f"{scaled:.1f} {UNITS[unit]}"


def duration(seconds: float | None) -> str:
    """The two largest units: 3 d 4 h, 2 min 5 s, 0.4 s."""
    if seconds is None:
        return NONE
    if seconds < MINUTE_S:
        return "0 s" if not seconds else f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    for unit_s, unit, lesser_s, lesser in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
        (MINUTE_S, "min", 1, "s"),
    ):
        if seconds >= unit_s:
            rest = int(seconds % unit_s) // lesser_s
            return f"{int(seconds // unit_s)} {unit}" + (f" {rest} {lesser}" if rest else "")
    return NONE


def moment(time_ms: int | None) -> str:
    """2026-11-15 16:20:33.123; empty if the record has no time."""
    if time_ms is None or time_ms < 0:
        return NONE
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
    except (ValueError, OverflowError, OSError):
        return f"@{time_ms}"


def clock(time_ms: int) -> str:
    """16:20:33"""
    return moment(time_ms)[11:19]


def ago(time_ms: int | None, now_ms: int) -> str:
    return NONE if time_ms is None or time_ms < 0 else f"{duration(max(0, now_ms - time_ms) // 1000)} ago"


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def ids(brokers: tuple[int, ...] | list[int]) -> str:
    return " ".join(map(str, brokers)) or NONE

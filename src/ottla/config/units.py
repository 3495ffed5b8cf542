"""Sizes and durations as people write them: `64MiB`, `7d`, `500ms`.

A setting carries its unit in its name (`segment_bytes`, `retention_ms`), so a bare number is always clear; a text with
a unit is converted to the unit of the name. What can't be converted without a remainder is refused rather than rounded.
"""

import re
from collections.abc import Iterable

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": 2**40}
_DURATIONS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_FIELD_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "seconds": 1_000_000,
    "minutes": 60_000_000,
    "hours": 3_600_000_000,
}
_SHORT = {"bytes": "B", "us": "us", "ms": "ms", "seconds": "s", "minutes": "min", "hours": "h"}
_QUANTITY = re.compile(r"(-?\d[\d_]*)(?:\.(\d+))?\s*([A-Za-z]*)")


def unit_of(name: str) -> str | None:
    """The unit in a setting's name: `bytes`, `ms`, …; None if it has none."""
    for word in reversed(name.split("_")):
        if word == "bytes" or word in _FIELD_UNITS_US:
            return word
    return None


def parse_quantity(text: str, unit: str | None) -> int:
    """The whole number that `text` means in `unit`. ValueError says what would have been understood."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected {expected(unit)}")
    whole, decimals, suffix = match[1].replace("_", ""), match[2] or "", match[3]
    factor, divisor = _scale(suffix, unit)
    value, remainder = divmod(int(whole + decimals) * factor, divisor * int("1" + "0" * len(decimals)))
    if remainder:
        raise ValueError(f"{text} is not a whole number of {unit or 'units'}")
    return value


def _scale(suffix: str, unit: str | None) -> tuple[int, int]:
    if not suffix:
        return 1, 1
    if unit == "bytes" and suffix.upper() in _SIZES:
        return _SIZES[suffix.upper()], 1
    if unit in _FIELD_UNITS_US and suffix.lower() in _DURATIONS_US:
        return _DURATIONS_US[suffix.lower()], _FIELD_UNITS_US[unit]
    raise ValueError(f"expected {expected(unit)}")


def expected(unit: str | None) -> str:
    """What a person may write for a setting of this unit."""
    if unit == "bytes":
        return "a whole number of bytes or a size like 64MiB, 1GiB, 500KB"
    if unit is not None:
        return f"a whole number of {unit} or a duration like 500ms, 30s, 12h, 7d"
    return "a whole number"


def format_quantity(value: int, unit: str | None) -> str:
    """The shortest text that `parse_quantity` reads back as `value`."""
    if value <= 0 or value in (INT32_MAX, INT64_MAX):
        return str(value)
    if unit == "bytes":
        return _in_largest(value, (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)))
    if unit in _FIELD_UNITS_US:
        steps = [(name, _DURATIONS_US[name] // _FIELD_UNITS_US[unit]) for name in ("d", "h", "min", "s", "ms")]
        return _in_largest(value, [(name, step) for name, step in steps if step > 1])
    return str(value)


def format_limit(value: int, unit: str | None) -> str:
    """`format_quantity` for a text that does not stand next to the setting's name: small numbers have a unit too."""
    text = format_quantity(value, unit)
    return text + _SHORT[unit] if unit in _SHORT and value > 0 and text.isdecimal() else text


def _in_largest(value: int, steps: Iterable[tuple[str, int]]) -> str:
    for name, step in steps:
        if value % step == 0:
            return f"{value // step}{name}"
    return str(value)

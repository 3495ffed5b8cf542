"""One value, as written by a person or a variable, into the type of its setting."""

import types
import typing
from enum import StrEnum
from typing import Any

from ottla.config.names import Setting
from ottla.config.units import expected, parse_quantity
from ottla.errors import ConfigError

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NOTHING = frozenset({"", "null", "none", "~"})
_IN_MS = {"ms": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}


def converted(setting: Setting, value: object, unit: str | None, where: str) -> object:
    """`value` as the setting's type; `unit` is the one that a bare number is in."""
    wanted, optional = _type_of(setting)
    if optional and (value is None or str(value).lower() in _NOTHING):
        return None
    if value is None:
        raise ConfigError(f"{where}: has no value; remove it to use the default")
    if wanted is bool:
        return as_bool(value, where)
    if wanted is int:
        return as_quantity(value, unit, setting.unit, where)
    if wanted is float:
        return _as_float(value, where)
    if wanted is str:
        return _as_text(value, where)
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return _as_choice(value, wanted, where)
    return _as_set(value, where)


def _type_of(setting: Setting) -> tuple[Any, bool]:
    wanted: Any = setting.field.type
    if isinstance(wanted, types.UnionType):
        (inner,) = (part for part in typing.get_args(wanted) if part is not types.NoneType)
        return inner, True
    return wanted, False


def as_bool(value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ConfigError(f"{where}: {value!r} can't be used; it must be true or false")


def as_quantity(value: object, unit: str | None, target_unit: str | None, where: str) -> int:
    """A whole number in `target_unit`. A bare number is in `unit`; a negative one means `no limit` in any unit."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigError(f"{where}: {value!r} can't be used; it must be {expected(target_unit)}")
    text = str(value)
    try:
        if not text.strip()[-1:].isalpha():
            number = parse_quantity(text, None)
            same_unit = unit == target_unit or number < 0
            return number if same_unit else number * _IN_MS[unit or "ms"] // _IN_MS[target_unit or "ms"]
        return parse_quantity(text, target_unit)
    except ValueError:
        raise ConfigError(f"{where}: {value!r} can't be used; it must be {expected(target_unit)}") from None


def _as_float(value: object, where: str) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise ConfigError(f"{where}: {value!r} can't be used; it must be a number") from None


def _as_text(value: object, where: str) -> str:
    if isinstance(value, list | dict):
        raise ConfigError(f"{where}: {value!r} can't be used; it must be a text")
    return str(value)


def _as_choice(value: object, choices: type[StrEnum], where: str) -> StrEnum:
    for choice in choices:
        if choice.value.lower() == str(value).strip().lower():
            return choice
    raise ConfigError(f"{where}: {value!r} can't be used; it must be one of {', '.join(choices)}")


def _as_set(value: object, where: str) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(str(part) for part in value)
    raise ConfigError(f"{where}: {value!r} can't be used; it must be a list of words")

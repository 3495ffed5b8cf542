"""How a setting says which values it takes, and how a wrong one is refused.

`setting(default, at_least=…)` stands where a dataclass field's default would; the limits are data, so that the check,
the generated `broker.yaml` and the configuration page can't disagree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, TypeVar

from ottla.config.units import INT32_MAX, format_limit, unit_of
from ottla.errors import ConfigError

T = TypeVar("T")


def setting(
    default: T,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    kafka: tuple[str, ...] = (),
) -> T:
    """A field with limits. `kafka`: what Kafka calls it, where that is not this field's own path with dots."""
    limits: Mapping[str, Any] = {"at_least": at_least, "at_most": at_most, "kafka": kafka}
    return field(default=default, metadata=limits)


def check_limits(settings: Any, prefix: str = "") -> None:
    """Refuse a value outside the limits that its field states."""
    for item in fields(settings):
        value = getattr(settings, item.name)
        if isinstance(value, int | float) and not within(item, value):
            raise refused(prefix + item.name, value, limits_text(item))


def within(item: "Field[Any]", value: float) -> bool:
    low, high = item.metadata.get("at_least"), item.metadata.get("at_most")
    return (low is None or value >= low) and (high is None or value <= high)


def limits_text(item: "Field[Any]", *, with_type_limits: bool = True) -> str:
    """`at least 1`, `from 0 to 9`, or nothing. A limit that only says how many bits there are may be left out."""
    low, high = item.metadata.get("at_least"), item.metadata.get("at_most")
    if high == INT32_MAX and not with_type_limits:
        high = None
    if low is None and high is None:
        return ""
    unit = unit_of(item.name)
    low_text, high_text = (_limit_text(limit, unit) for limit in (low, high))
    if high is None:
        return f"at least {low_text}"
    return f"at most {high_text}" if low is None else f"from {low_text} to {high_text}"


def _limit_text(limit: float | None, unit: str | None) -> str:
    return format_limit(limit, unit) if isinstance(limit, int) else str(limit)


def refused(name: str, value: object, would_do: str) -> ConfigError:
    """The one form of every complaint: the setting, what it was given, what would do."""
    return ConfigError(f"{name}: {value!r} can't be used; it must be {would_do}")


def walk(cls: type[Any], prefix: str = "") -> Iterator[tuple[str, "Field[Any]", type[Any]]]:
    """Every setting below a configuration class, as (path, field, the class that has it), in order of definition."""
    for item in fields(cls):
        if is_dataclass(item.type) and isinstance(item.type, type):
            yield from walk(item.type, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, item, cls

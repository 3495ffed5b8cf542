from dataclasses import dataclass, fields

import pytest

from ottla.config.settings import check_limits, limits_text, refused, setting, walk
from ottla.config.units import INT32_MAX
from ottla.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    wait_ms: int = setting(1_000, at_least=1, at_most=60_000)
    ratio: float = setting(0.5, at_least=0.0, at_most=1.0)
    size_bytes: int = setting(10, at_least=4, at_most=INT32_MAX)
    name: str = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    count: int = setting(1, at_least=0)
    inner: Inner


def test_a_value_outside_its_limits_is_refused_by_name_value_and_what_would_do() -> None:
    with pytest.raises(ConfigError, match=r"^inner\.wait_ms: 0 can't be used; it must be from 1ms to 1min$"):
        check_limits(Inner(wait_ms=0), "inner.")
    with pytest.raises(ConfigError, match=r"ratio: 1\.5"):
        check_limits(Inner(ratio=1.5))


def test_values_at_their_limits_are_taken() -> None:
    check_limits(Inner(wait_ms=1, ratio=1.0))
    check_limits(Inner(wait_ms=60_000, ratio=0.0))


def test_limits_are_told_in_words() -> None:
    texts = {item.name: limits_text(item) for item in fields(Inner)}
    assert texts == {
        "wait_ms": "from 1ms to 1min",
        "ratio": "from 0.0 to 1.0",
        "size_bytes": f"from 4B to {INT32_MAX}B",
        "name": "",
    }


def test_a_limit_of_the_type_alone_can_be_left_out() -> None:
    (size,) = (item for item in fields(Inner) if item.name == "size_bytes")
    assert limits_text(size, with_type_limits=False) == "at least 4B"


def test_walk_names_every_setting_by_its_path() -> None:
    assert [path for path, _, _ in walk(Outer)] == [
        "count",
        "inner.wait_ms",
        "inner.ratio",
        "inner.size_bytes",
        "inner.name",
    ]


def test_every_complaint_has_the_same_form() -> None:
    assert str(refused("a.b", "x", "a number")) == "a.b: 'x' can't be used; it must be a number"

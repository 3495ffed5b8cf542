import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.units import INT64_MAX, format_limit, format_quantity, parse_quantity, unit_of

UNITS = [None, "bytes", "us", "ms", "seconds", "minutes", "hours"]


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("64MiB", "bytes", 64 * 1024 * 1024),
        ("1GB", "bytes", 10**9),
        ("1.5 KiB", "bytes", 1536),
        ("12", "bytes", 12),
        ("7d", "ms", 7 * 24 * 3_600_000),
        ("500ms", "ms", 500),
        ("0.5s", "ms", 500),
        ("5m", "ms", 300_000),
        ("1ms", "us", 1_000),
        ("7d", "minutes", 10_080),
        ("-1", "ms", -1),
        ("1_000", None, 1_000),
    ],
)
def test_a_quantity_is_converted_to_the_unit_of_its_setting(text: str, unit: str | None, value: int) -> None:
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [("64MiB", "ms"), ("7d", "bytes"), ("7d", None), ("x", "ms"), ("", "bytes"), ("1.5", None), ("90s", "minutes")],
)
def test_a_quantity_that_does_not_fit_the_unit_is_refused(text: str, unit: str | None) -> None:
    with pytest.raises(ValueError, match=r"expected|whole number"):
        parse_quantity(text, unit)


@given(value=st.integers(-1, INT64_MAX), unit=st.sampled_from(UNITS))
def test_what_is_formatted_is_parsed_back(value: int, unit: str | None) -> None:
    assert parse_quantity(format_quantity(value, unit), unit) == value
    assert parse_quantity(format_limit(value, unit), unit) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1024, "bytes", "1KiB"), (1025, "bytes", "1025"), (86_400_000, "ms", "1d"), (INT64_MAX, "ms", str(INT64_MAX))],
)
def test_a_quantity_is_formatted_in_the_largest_unit_that_fits(value: int, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("segment_bytes", "bytes"),
        ("frame_size_bytes_max", "bytes"),
        ("inline_sync_mean_us_max", "us"),
        ("offsets_retention_minutes", "minutes"),
        ("num_partitions", None),
    ],
)
def test_the_unit_is_in_the_name(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit

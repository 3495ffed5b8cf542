import pytest

from ottla.console.text import NONE, ago, count, duration, moment, plural, rate, short, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, NONE),
        (0, "0 s"),
        (0.42, "0.4 s"),
        (12.6, "13 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (3_725, "1 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, NONE), (0, "0"), (9_999, "9,999"), (12_345, "12.3k"), (1_234_567, "1.2M"), (2.5e9, "2.5G")],
)
def test_short_numbers(number: float | None, text: str) -> None:
    assert short(number) == text


def test_sizes() -> None:
    assert [size(each) for each in (None, 0, 1_023, 1_536, 3 * 1024**3)] == [
        NONE,
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 GiB",
    ]


def test_rates_below_ten_have_a_digit_more() -> None:
    assert [rate(each) for each in (0.0, 0.25, 42.0)] == ["0/s", "0.2/s", "42/s"]


def test_moments_are_in_utc() -> None:
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"


def test_a_record_may_have_no_time_or_an_impossible_one() -> None:
    assert moment(-1) == NONE
    assert moment(2**62) == f"@{2**62}"


def test_others() -> None:
    assert count(1234567) == "1,234,567"
    assert plural(1, "match", "matches") == "1 match"
    assert plural(2, "match", "matches") == "2 matches"
    assert ago(1_000, 62_000) == "1 min 1 s ago"

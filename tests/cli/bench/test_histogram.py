"""Percentiles out of counted buckets."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.bench.histogram import Histogram, bucket_of, merged, middle_of


def histogram(*durations_us: int) -> Histogram:
    made = Histogram()
    for duration_us in durations_us:
        made.add(duration_us)
    return made


@given(st.integers(0, 10**9))
def test_a_bucket_stands_for_its_values_to_within_a_percent(duration_us: int) -> None:
    assert abs(middle_of(bucket_of(duration_us)) - duration_us) <= duration_us * 0.01


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_buckets_keep_the_order_of_durations(one: int, other: int) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


def test_percentiles() -> None:
    made = histogram(*range(1, 101))

    assert [made.percentile_us(percent) for percent in (1, 50, 99, 100)] == [1, 50, 99, 100]


def test_no_durations_have_no_percentile() -> None:
    assert Histogram().percentile_us(50) is None


def test_a_clock_that_went_backwards_counts_as_nothing() -> None:
    assert histogram(-5).percentile_us(50) == 0


def test_histograms_add_up() -> None:
    both = merged([histogram(1, 1, 2), histogram(2, 300)])

    assert both.total == 5
    assert both.percentile_us(50) == 2
    assert both.counts == histogram(1, 1, 2, 2, 300).counts

"""What figures are counted with, and how they are written."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.observability.metrics import LATENCY_BOUNDS_US, Histogram, Refusals, Text, labelled

SAMPLE = re.compile(r'^[a-z_]+(?:\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$')


def recorded(*took_us: float) -> Histogram:
    histogram = Histogram()
    for each in took_us:
        histogram.record(each)
    return histogram


@given(st.lists(st.floats(0, 2e7), max_size=50))
def test_buckets_hold_what_took_no_longer_than_their_bound(took_us: list[float]) -> None:
    histogram = recorded(*took_us)
    text = Text()
    text.histogram("x_seconds", "About x.", [("", histogram)])
    buckets = {line.split('"')[1]: int(line.split()[-1]) for line in text.lines if "_bucket" in line}
    assert buckets == {
        **{str(bound / 1e6): sum(took <= bound for took in took_us) for bound in LATENCY_BOUNDS_US},
        "+Inf": len(took_us),
    }


@given(st.lists(st.floats(0, 9e6), min_size=1, max_size=50))
def test_a_quantile_lies_in_the_bucket_of_the_value_that_it_stands_for(took_us: list[float]) -> None:
    exact = sorted(took_us)[(len(took_us) - 1) // 2]
    found = recorded(*took_us).quantile_us(0.5)
    low = max((bound for bound in LATENCY_BOUNDS_US if bound < exact), default=0)
    high = min(bound for bound in LATENCY_BOUNDS_US if bound >= exact)
    assert low <= found <= high


def test_nothing_recorded_has_no_quantile() -> None:
    assert Histogram().quantile_us(0.99) == 0


def test_histograms_can_be_added() -> None:
    both = recorded(10, 1_000)
    both.add(recorded(1_000))
    assert (both.count, both.sum_us) == (3, 2_010)


@given(st.text())
def test_whatever_a_name_holds_it_stays_one_line(name: str) -> None:
    text = Text()
    text.gauges("x", "About x.", [(labelled(group=name), 1.5)])
    told = text.lines[-1]
    assert SAMPLE.fullmatch(told)
    assert "\n" not in told


def test_numbers_are_whole_where_they_are() -> None:
    text = Text()
    for value in (3, 3.0, 0.25, True):
        text.sample("x", value)
    assert text.lines == ["x 3", "x 3", "x 0.25", "x 1"]


def test_a_family_says_what_it_is_once_and_before_its_samples() -> None:
    text = Text()
    text.counters("x_total", "About x.", [(labelled(api=name), number) for number, name in enumerate("ab")])
    assert text.lines == [
        "# HELP x_total About x.", "# TYPE x_total counter", 'x_total{api="a"} 0', 'x_total{api="b"} 1',
    ]  # fmt: skip


def test_bounds_grow() -> None:
    assert all(low < high for low, high in pairwise(LATENCY_BOUNDS_US))


def test_refusals_are_counted_by_api_and_error() -> None:
    refusals = Refusals()
    for error in ("A", "B", "A"):
        refusals.count("Produce", error)
    assert refusals.counts == {("Produce", "A"): 2, ("Produce", "B"): 1}

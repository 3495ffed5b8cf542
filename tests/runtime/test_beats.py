"""What is repeated comes together, sooner or later, and never much later than it was due."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.beats import last_beat_ms, nearest_beat_ms, towards_beat_ms

times = st.integers(min_value=0, max_value=10**12)
intervals = st.integers(min_value=4, max_value=10_000)


@given(times, intervals)
def test_nothing_is_early_or_more_than_a_quarter_late(due_ms: int, every_ms: int) -> None:
    assert due_ms <= towards_beat_ms(due_ms, every_ms) <= due_ms + every_ms // 4


@given(times, intervals)
def test_what_counts_from_the_last_time_is_on_the_beat_after_a_few(due_ms: int, every_ms: int) -> None:
    at_ms = due_ms
    for _ in range(5 + every_ms % 4):
        at_ms = towards_beat_ms(at_ms + every_ms, every_ms)
    assert at_ms % every_ms == 0
    assert towards_beat_ms(at_ms + every_ms, every_ms) == at_ms + every_ms


@given(times, intervals)
def test_the_nearest_beat_is_half_an_interval_away_at_most(due_ms: int, every_ms: int) -> None:
    beat_ms = nearest_beat_ms(due_ms, every_ms)
    assert beat_ms % every_ms == 0
    assert abs(beat_ms - due_ms) <= every_ms / 2


@given(times, intervals)
def test_what_may_not_be_late_comes_on_the_beat_before(due_ms: int, every_ms: int) -> None:
    at_ms = last_beat_ms(due_ms, every_ms)
    assert at_ms % every_ms == 0
    assert due_ms - every_ms < at_ms <= due_ms

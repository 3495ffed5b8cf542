import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.membership.rumours import Rumours, retransmits


@pytest.mark.parametrize(("members", "times"), [(1, 4), (3, 4), (9, 4), (10, 8), (99, 8), (100, 12), (1_000, 16)])
def test_news_is_passed_on_a_number_of_times_that_grows_with_the_logarithm(members: int, times: int) -> None:
    assert retransmits(members) == times


def test_a_rumour_is_over_when_it_was_passed_on_often_enough() -> None:
    rumours = Rumours()
    rumours.spread(1, b"x" * 20)
    assert [rumours.take(100, 2) for _ in range(3)] == [[b"x" * 20], [b"x" * 20], []]
    assert not rumours.is_urgent


def test_what_was_passed_on_least_goes_first() -> None:
    rumours = Rumours()
    rumours.spread(1, b"a" * 20)
    rumours.spread(2, b"b" * 20)
    assert rumours.take(20, 9) == [b"a" * 20]
    assert rumours.take(20, 9) == [b"b" * 20]
    rumours.spread(3, b"c" * 20)
    assert rumours.take(20, 9) == [b"c" * 20]


def test_the_latest_about_a_member_replaces_what_was_said_before() -> None:
    rumours = Rumours()
    rumours.spread(1, b"old" * 10)
    rumours.spread(1, b"new" * 10)
    assert rumours.take(1_000, 9) == [b"new" * 10]


def test_load_figures_only_fill_the_room_that_is_left_and_are_not_urgent() -> None:
    rumours = Rumours()
    rumours.spread_idly(1, b"l" * 20)
    assert not rumours.is_urgent
    rumours.spread(1, b"s" * 20)
    assert rumours.take(39, 9) == [b"s" * 20]
    assert rumours.take(40, 9) == [b"s" * 20, b"l" * 20]


def test_load_figures_are_passed_on_half_as_often() -> None:
    rumours = Rumours()
    rumours.spread_idly(1, b"l" * 20)
    assert [len(rumours.take(100, 8)) for _ in range(6)] == [1, 1, 1, 1, 0, 0]


def test_one_that_does_not_fit_does_not_hold_up_those_that_do() -> None:
    rumours = Rumours()
    rumours.spread(1, b"a" * 90)
    rumours.spread(2, b"b" * 30)
    assert rumours.take(50, 9) == [b"b" * 30]


def test_nothing_is_said_of_one_that_is_forgotten() -> None:
    rumours = Rumours()
    rumours.spread(1, b"a" * 20)
    rumours.spread_idly(1, b"b" * 20)
    rumours.forget(1)
    assert rumours.take(100, 9) == []


@given(st.lists(st.integers(19, 800), max_size=40), st.integers(0, 1_500), st.integers(1, 12))
def test_room_and_count_are_kept_whatever_is_said(sizes: list[int], room_bytes: int, times: int) -> None:
    rumours = Rumours()
    for about, size in enumerate(sizes):
        rumours.spread(about, about.to_bytes(2, "big") + b"x" * (size - 2))
    said: list[bytes] = []
    while taken := rumours.take(room_bytes, times):
        assert sum(map(len, taken)) <= room_bytes
        assert len(set(taken)) == len(taken)
        said += taken
    assert all(said.count(entry) == times for entry in set(said))
    assert len(set(said)) == sum(size <= room_bytes for size in sizes)

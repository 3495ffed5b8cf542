from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.raft.quorum import Outcome, Tally, agreed, majority


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, needed: int) -> None:
    assert majority(count) == needed


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=9))
def test_the_agreed_value_is_the_highest_that_a_majority_has_reached(values: list[int]) -> None:
    value = agreed(values)
    assert sum(each >= value for each in values) >= majority(len(values))
    assert sum(each >= value + 1 for each in values) < majority(len(values))


def test_nothing_is_agreed_without_voters() -> None:
    assert agreed([]) == 0


@settings(deadline=None)
@given(st.integers(1, 7), st.lists(st.tuples(st.integers(1, 7), st.booleans())))
def test_an_election_is_decided_when_the_missing_votes_can_no_longer_change_it(
    count: int, votes: list[tuple[int, bool]]
) -> None:
    tally = Tally(range(1, count + 1))
    first: dict[int, bool] = {}
    for voter, granted in votes:
        if voter <= count:
            first.setdefault(voter, granted)
        outcome = tally.record(voter, granted)
        yes, no = sum(first.values()), len(first) - sum(first.values())
        assert (outcome is Outcome.WON) == (yes > count / 2)
        assert (outcome is Outcome.LOST) == (no >= count / 2)


def test_only_the_first_vote_of_a_voter_counts_and_only_voters_vote() -> None:
    tally = Tally([1, 2, 3])
    assert tally.record(1, True) is Outcome.PENDING
    assert tally.record(1, True) is Outcome.PENDING
    assert tally.record(9, True) is Outcome.PENDING
    assert tally.record(2, False) is Outcome.PENDING
    assert tally.record(2, True) is Outcome.PENDING
    assert tally.record(3, True) is Outcome.WON

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import InvariantError
from ottla.raft.entry import ORIGIN, EntryId
from ottla.raft.terms import Terms

rising = st.lists(st.integers(1, 6), max_size=30).map(sorted)


def terms_of(values: list[int], base: EntryId = ORIGIN) -> Terms:
    terms = Terms(base)
    for index, term in enumerate(values, base.index + 1):
        terms.add(index, term)
    return terms


@settings(deadline=None)
@given(rising)
def test_the_term_of_every_entry_is_known(values: list[int]) -> None:
    terms = terms_of(values)
    assert [terms.at(index) for index in range(len(values) + 1)] == [0, *values]


@settings(deadline=None)
@given(rising, st.data())
def test_what_is_cut_is_forgotten_and_may_be_written_anew(values: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(values) + 1))
    terms = terms_of(values)
    terms.truncate(cut)
    terms.add(cut, 9)
    assert [terms.at(index) for index in range(cut + 1)] == [0, *values[: cut - 1], 9]


@settings(deadline=None)
@given(rising, st.data())
def test_the_beginning_can_be_forgotten(values: list[int], data: st.DataObject) -> None:
    base = data.draw(st.integers(0, len(values)))
    terms = terms_of(values)
    terms.forget_before(base)
    assert [terms.at(index) for index in range(base, len(values) + 1)] == [0, *values][base:]
    with pytest.raises(InvariantError):
        terms.at(base - 1)


@settings(deadline=None)
@given(rising, st.integers(0, 30), st.integers(0, 7))
def test_the_last_entry_that_is_not_above_a_term_is_found(values: list[int], index: int, term: int) -> None:
    index = min(index, len(values))
    found = terms_of(values).last_not_above(index, term)
    every = [EntryId(at, each) for at, each in enumerate([0, *values])]
    assert found == max((at for at in every[: index + 1] if at.term <= term), key=lambda at: at.index)


def test_the_base_is_where_two_logs_agree_at_the_latest() -> None:
    terms = terms_of([5, 6], base=EntryId(10, 5))
    assert terms.last_not_above(12, 4) == EntryId(10, 5)


def test_terms_never_fall() -> None:
    terms = terms_of([1, 3])
    with pytest.raises(InvariantError):
        terms.add(3, 2)


def test_the_base_cannot_be_cut_and_does_not_move_back() -> None:
    terms = Terms(EntryId(10, 5))
    with pytest.raises(InvariantError):
        terms.truncate(10)
    with pytest.raises(InvariantError):
        terms.forget_before(9)

"""Batches behind one that was refused wait for it."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.storage.producer_state import SEQUENCE_MAX
from ottla.storage.refusals import PRODUCERS_MAX, REMEMBERED_MS, Refusals

REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS
NOW_MS = 1_000


def refused_at(sequence: int, *, epoch: int = 0) -> Refusals:
    refusals = Refusals()
    refusals.note(7, epoch, sequence, REFUSED)
    return refusals


def test_a_batch_behind_a_refused_one_is_refused_for_the_same_reason() -> None:
    refusals = refused_at(3)
    for sequence in (4, 5):
        with pytest.raises(BrokerError) as refused:
            refusals.check(7, 0, sequence, NOW_MS)
        assert refused.value.code is REFUSED


def test_once_it_has_come_again_nobody_waits_for_it() -> None:
    refusals = refused_at(3)
    refusals.check(7, 0, 3, NOW_MS)
    refusals.check(7, 0, 4, NOW_MS)
    assert not refusals


def test_the_first_of_several_is_waited_for() -> None:
    refusals = refused_at(3)
    refusals.note(7, 0, 4, REFUSED)
    with pytest.raises(BrokerError):
        refusals.check(7, 0, 4, NOW_MS)


def test_numbers_that_begin_at_0_again_are_behind_the_largest() -> None:
    refusals = refused_at(SEQUENCE_MAX)
    refusals.note(7, 0, 0, REFUSED)
    with pytest.raises(BrokerError):
        refusals.check(7, 0, 0, NOW_MS)
    refusals.came_again(7, 0, SEQUENCE_MAX - 1)
    assert refusals
    refusals.came_again(7, 0, 0)
    assert not refusals


def test_other_producers_and_new_epochs_do_not_wait() -> None:
    refusals = refused_at(3)
    refusals.check(8, 0, 9, NOW_MS)
    refusals.check(7, 1, 0, NOW_MS)
    assert not refusals


def test_one_that_never_comes_again_is_not_waited_for_for_ever() -> None:
    refusals = refused_at(3)
    with pytest.raises(BrokerError):
        refusals.check(7, 0, 4, NOW_MS)
    refusals.check(7, 0, 4, NOW_MS + REMEMBERED_MS + 1)
    assert not refusals


@pytest.mark.parametrize(("epoch", "sequence", "is_over"), [(0, 2, False), (0, 3, True), (0, 9, True), (1, 0, True)])
def test_what_another_leader_has_stored_is_not_waited_for(epoch: int, sequence: int, is_over: bool) -> None:
    refusals = refused_at(3)
    refusals.came_again(8, epoch, sequence)
    refusals.came_again(7, epoch, sequence)
    assert bool(refusals) is not is_over


def test_memory_is_bounded() -> None:
    refusals = Refusals()
    for producer_id in range(PRODUCERS_MAX + 1):
        refusals.note(producer_id, 0, 0, REFUSED)
    refusals.check(0, 0, 1, NOW_MS)
    with pytest.raises(BrokerError):
        refusals.check(PRODUCERS_MAX, 0, 1, NOW_MS)

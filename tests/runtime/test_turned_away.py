"""Batches that come for a partition before it is led here."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.runtime.turned_away import BATCHES_MAX, TurnedAway
from ottla.storage.refusals import REMEMBERED_MS, Refusals
from tests.storage.batches import batch

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
PLACE = ("orders", 0)
NOW_MS = 1_000


def numbered(sequence: int, producer_id: int = 7) -> bytes:
    return batch(b"x", producer_id=producer_id, epoch=0, sequence=sequence)


def told(turned_away: TurnedAway, place: tuple[str | bytes, int] = PLACE, now_ms: int = NOW_MS) -> Refusals:
    refusals = Refusals()
    turned_away.tell(place, refusals, now_ms)
    return refusals


def test_those_behind_one_that_was_turned_away_wait_for_it_once_the_partition_is_led() -> None:
    turned_away = TurnedAway()
    for sequence in (3, 4):
        turned_away.note(PLACE, numbered(sequence), REFUSED, NOW_MS)
    refusals = told(turned_away)
    for sequence in (4, 5):
        with pytest.raises(BrokerError) as refused:
            refusals.check(7, 0, sequence, NOW_MS)
        assert refused.value.code is REFUSED
    refusals.check(7, 0, 3, NOW_MS)


def test_it_is_told_once_and_of_that_partition() -> None:
    turned_away = TurnedAway()
    turned_away.note(PLACE, numbered(3), REFUSED, NOW_MS)
    assert not told(turned_away, ("orders", 1))
    assert told(turned_away)
    assert not told(turned_away)


def test_what_was_turned_away_long_ago_is_not_waited_for() -> None:
    turned_away = TurnedAway()
    turned_away.note(PLACE, numbered(3), REFUSED, NOW_MS)
    assert not told(turned_away, now_ms=NOW_MS + REMEMBERED_MS + 1)


@pytest.mark.parametrize("records", [b"", b"no batch", batch(b"of a producer without numbers")])
def test_only_numbered_batches_are_remembered(records: bytes) -> None:
    turned_away = TurnedAway()
    turned_away.note(PLACE, records, REFUSED, NOW_MS)
    assert not told(turned_away)


def test_memory_is_bounded() -> None:
    turned_away = TurnedAway()
    for index in range(BATCHES_MAX + 1):
        turned_away.note(("orders", index), numbered(3), REFUSED, NOW_MS)
    assert not told(turned_away, ("orders", 0))
    assert told(turned_away, ("orders", BATCHES_MAX))

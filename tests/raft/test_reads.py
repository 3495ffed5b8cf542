from __future__ import annotations

from ottla.raft.reads import PendingReads, Reader

ANNA, BEN, CARA = Reader(1, 10), Reader(1, 11), Reader(2, 10)


def test_reads_of_one_turn_share_a_round() -> None:
    reads = PendingReads()
    reads.add(ANNA)
    reads.add(BEN)
    assert reads.begin_round(commit=7)
    assert not reads.begin_round(commit=8)
    assert reads.round == 1
    assert list(reads.confirmed(1)) == [(ANNA, 7), (BEN, 7)]
    assert len(reads) == 0


def test_a_round_that_began_before_a_read_says_nothing_about_it() -> None:
    reads = PendingReads()
    reads.add(ANNA)
    reads.begin_round(commit=7)
    reads.add(BEN)
    reads.begin_round(commit=9)
    assert list(reads.confirmed(1)) == [(ANNA, 7)]
    assert list(reads.confirmed(2)) == [(BEN, 9)]


def test_a_later_round_confirms_earlier_reads_too() -> None:
    reads = PendingReads()
    reads.add(ANNA)
    reads.begin_round(commit=7)
    reads.add(CARA)
    reads.begin_round(commit=9)
    assert list(reads.confirmed(2)) == [(ANNA, 7), (CARA, 9)]


def test_all_that_wait_are_told_when_leadership_is_lost() -> None:
    reads = PendingReads()
    reads.add(ANNA)
    reads.begin_round(commit=7)
    reads.add(BEN)
    assert list(reads.abandon()) == [ANNA, BEN]
    assert len(reads) == 0
    assert list(reads.confirmed(5)) == []

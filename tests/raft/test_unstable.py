from __future__ import annotations

from ottla.raft.entry import Entry, EntryId, Snapshot
from ottla.raft.unstable import Unstable


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [Entry(index=index, term=term) for index in range(first, last + 1)]


def test_what_was_offered_is_on_disk_when_it_is_written() -> None:
    unstable = Unstable(5)
    unstable.append(entries(5, 6))
    assert unstable.offer() == (None, tuple(entries(5, 6)))
    unstable.append(entries(7, 7))
    unstable.written()
    assert unstable.first == 7
    assert unstable.offer() == (None, tuple(entries(7, 7)))


def test_what_was_replaced_while_it_was_being_written_is_not_on_disk() -> None:
    unstable = Unstable(5)
    unstable.append(entries(5, 7, term=1))
    unstable.offer()
    unstable.cut(6)
    unstable.append(entries(6, 8, term=2))
    unstable.written()
    assert unstable.first == 6
    assert unstable.offer() == (None, tuple(entries(6, 8, term=2)))


def test_what_was_replaced_twice_by_the_same_is_not_on_disk_either() -> None:
    """The writer saw the first version, then (not yet written) comes another, then the first again."""
    unstable = Unstable(5)
    unstable.append(entries(5, 6, term=1))
    unstable.offer()
    unstable.cut(5)
    unstable.append(entries(5, 5, term=2))
    unstable.cut(5)
    unstable.append(entries(5, 6, term=3))
    unstable.written()
    assert unstable.first == 5


def test_a_cut_may_reach_what_is_on_disk() -> None:
    unstable = Unstable(5)
    unstable.append(entries(5, 6))
    unstable.cut(3)
    unstable.append(entries(3, 3, term=2))
    assert unstable.first == 3
    assert unstable.offer() == (None, tuple(entries(3, 3, term=2)))


def test_a_snapshot_takes_the_place_of_everything() -> None:
    unstable = Unstable(5)
    unstable.append(entries(5, 6))
    unstable.offer()
    snapshot = Snapshot(last=EntryId(20, 3))
    unstable.replace(snapshot)
    unstable.append(entries(21, 21, term=3))
    unstable.written()
    assert unstable.offer() == (snapshot, tuple(entries(21, 21, term=3)))
    unstable.written()
    assert unstable.offer() == (None, ())
    assert unstable.first == 22


def test_a_snapshot_that_was_replaced_while_it_was_written_leaves_the_newer_one() -> None:
    unstable = Unstable(1)
    unstable.replace(Snapshot(last=EntryId(20, 3)))
    unstable.offer()
    newer = Snapshot(last=EntryId(30, 4))
    unstable.replace(newer)
    unstable.written()
    assert unstable.offer() == (newer, ())

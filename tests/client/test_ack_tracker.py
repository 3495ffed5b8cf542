from hypothesis import given
from hypothesis import strategies as st

from ottla.client.ack_tracker import AckTracker
from ottla.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def tracker_with(*offsets: int) -> AckTracker:
    tracker = AckTracker()
    for offset in offsets:
        tracker.handed_out(A, offset)
    return tracker


def test_acknowledged_in_order_the_offset_follows() -> None:
    tracker = tracker_with(5, 6, 7)

    tracker.ack(A, 5)
    tracker.ack(A, 6)

    assert tracker.take_moved() == {A: 7}
    assert tracker.open_count() == 1


def test_what_is_acknowledged_early_waits_for_what_comes_before_it() -> None:
    tracker = tracker_with(5, 6, 7)

    tracker.ack(A, 7)
    tracker.ack(A, 6)
    assert tracker.take_moved() == {}

    tracker.ack(A, 5)
    assert tracker.take_moved() == {A: 8}


def test_an_offset_is_taken_once() -> None:
    tracker = tracker_with(5)
    tracker.ack(A, 5)

    assert tracker.take_moved() == {A: 6}
    assert tracker.take_moved() == {}


def test_acknowledging_twice_changes_nothing() -> None:
    tracker = tracker_with(5, 6)
    tracker.ack(A, 5)
    tracker.ack(A, 5)

    assert tracker.take_moved() == {A: 6}
    assert tracker.open_count() == 1


def test_gaps_between_offsets_do_not_matter() -> None:
    tracker = tracker_with(5, 9)
    tracker.ack(A, 5)
    tracker.ack(A, 9)

    assert tracker.take_moved() == {A: 10}


def test_partitions_do_not_disturb_each_other() -> None:
    tracker = tracker_with(1)
    tracker.handed_out(B, 1)
    tracker.ack(B, 1)

    assert tracker.take_moved() == {B: 2}


def test_of_a_lost_partition_nothing_is_committed() -> None:
    tracker = tracker_with(1, 2)
    tracker.ack(A, 1)
    tracker.drop(A)
    tracker.ack(A, 2)

    assert tracker.take_moved() == {}
    assert tracker.open_count() == 0


@given(st.permutations(list(range(12))), st.integers(0, 12))
def test_in_any_order_exactly_what_is_done_without_a_gap_is_committed(order: list[int], count: int) -> None:
    tracker = tracker_with(*range(12))
    for offset in order[:count]:
        tracker.ack(A, offset)

    done = set(order[:count])
    next_offset = next(offset for offset in range(13) if offset not in done)
    assert tracker.take_moved() == ({A: next_offset} if next_offset else {})
    assert tracker.open_count() == 12 - count

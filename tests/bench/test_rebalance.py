"""When a group has shared out its partitions."""

from bench.rebalance import is_shared_out


def test_every_partition_with_exactly_one_member_and_none_idle() -> None:
    assert is_shared_out([{0: [0, 1], 1: [2]}, {0: [3]}], 4)


def test_a_partition_that_two_still_hold_is_not_shared_out() -> None:
    assert not is_shared_out([{0: [0, 1], 1: [2]}, {0: [1, 3]}], 4)


def test_a_partition_that_nobody_has() -> None:
    assert not is_shared_out([{0: [0, 1], 1: [2]}], 4)


def test_a_member_without_any_has_not_joined_yet() -> None:
    assert not is_shared_out([{0: [0, 1], 1: [2, 3]}, {0: []}], 4)

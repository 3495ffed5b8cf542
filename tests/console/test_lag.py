"""Each cause of lag is told apart from the others, by what a group looks like while it has it."""

from collections.abc import Mapping

import pytest

from ottla.console.lag import Cause, GroupLook, PartitionLook, diagnose
from ottla.types import TopicPartition

STEP_MS = 5_000
Place = tuple[int, int, str | None]
"""End, committed, member."""


def look(
    at: int, places: Mapping[int, Place], *, state: str = "Stable", seconds: float = 30.0, members: str = "ab"
) -> GroupLook:
    return GroupLook(
        at_ms=at * STEP_MS,
        state=state,
        members={name: f"{name} (10.0.0.1)" for name in members},
        partitions={
            TopicPartition("orders", index): PartitionLook(
                end=end,
                committed=committed,
                records=end - committed,
                seconds=seconds if end > committed else 0.0,
                member=member,
            )
            for index, (end, committed, member) in places.items()
        },
    )


def growing(written: Mapping[int, int], read: Mapping[int, int], owners: str = "aabb") -> list[GroupLook]:
    """Three looks at partitions that are written and read at these rates (records between two looks)."""
    return [
        look(at, {index: (1_000 + at * written[index], 900 + at * read[index], owners[index]) for index in written})
        for at in range(3)
    ]


def cause(looks: list[GroupLook]) -> Cause | None:
    found = diagnose(looks)
    return None if found is None else found.cause


def test_nothing_is_said_of_a_group_that_has_read_everything() -> None:
    assert diagnose([look(at, {0: (100 * at, 100 * at, "a")}) for at in range(3)]) is None


def test_nothing_is_said_while_nothing_was_seen() -> None:
    assert diagnose([]) is None


def test_nothing_is_said_of_rates_after_one_look() -> None:
    assert diagnose([look(0, {0: (1_000, 10, "a"), 1: (1_000, 10, "b")})]) is None


def test_nothing_is_said_of_a_group_that_catches_up() -> None:
    assert diagnose([look(at, {0: (1_000, 100 + 300 * at, "a")}, seconds=60 - 20 * at) for at in range(3)]) is None


def test_a_second_or_two_behind_is_how_committing_works() -> None:
    looks = [look(at, {0: (1_000 + 200 * at, 950 + 150 * at, "a")}, seconds=2.0) for at in range(3)]

    assert diagnose(looks) is None


def test_nobody_reads_a_group_without_members() -> None:
    found = diagnose([look(0, {0: (500, 100, None), 1: (300, 100, None)}, state="Empty", members="")])

    assert found is not None
    assert found.cause is Cause.NO_MEMBERS
    assert "600 records" in found.sentence


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_group_that_gives_out_partitions_is_rebalancing(state: str) -> None:
    assert cause([look(0, {0: (500, 100, None)}, state=state)]) is Cause.REBALANCING


def test_members_that_come_and_go_are_a_rebalance_even_if_it_is_stable_when_looked_at() -> None:
    looks = [look(at, {0: (500 + at, 100, owner)}) for at, owner in enumerate("abab")]

    assert cause(looks) is Cause.REBALANCING


def test_one_change_of_members_is_no_storm() -> None:
    looks = [look(at, {0: (500 + 100 * at, 100 + 10 * at, owner)}) for at, owner in enumerate("aabbbb")]

    assert cause(looks) is not Cause.REBALANCING


def test_a_partition_that_no_member_has_is_unread() -> None:
    found = diagnose([look(0, {0: (500, 490, "a"), 1: (500, 100, None)})])

    assert found is not None
    assert found.cause is Cause.UNREAD_PARTITION
    assert found.partitions == (TopicPartition("orders", 1),)


def test_members_that_commit_nothing_are_stalled() -> None:
    assert cause(growing(dict.fromkeys(range(4), 50), dict.fromkeys(range(4), 0))) is Cause.STALLED


def test_old_records_that_nobody_commits_are_a_stall_though_nothing_new_is_written() -> None:
    looks = [look(at, {0: (1_000, 500, "a")}, seconds=60 + 5.0 * at) for at in range(3)]

    assert cause(looks) is Cause.STALLED


def test_one_partition_that_stands_still_while_its_reader_goes_on_is_stuck() -> None:
    looks = [
        look(at, {0: (5_000 + 10 * at, 700, "a"), 1: (1_000 + 10 * at, 1_000 + 10 * at, "a"), 2: (0, 0, "b")})
        for at in range(3)
    ]
    found = diagnose(looks)

    assert found is not None
    assert found.cause is Cause.STUCK_PARTITION
    assert found.partitions == (TopicPartition("orders", 0),)
    assert "offset 700" in found.sentence


def test_one_partition_that_gets_most_is_skewed() -> None:
    found = diagnose(growing({0: 2_000, 1: 20, 2: 20, 3: 20}, {0: 300, 1: 20, 2: 20, 3: 20}))

    assert found is not None
    assert found.cause is Cause.SKEWED_PARTITION
    assert found.partitions == (TopicPartition("orders", 0),)


def test_one_member_that_reads_less_than_the_others_is_slow() -> None:
    found = diagnose(growing(dict.fromkeys(range(4), 200), {0: 200, 1: 200, 2: 20, 3: 20}))

    assert found is not None
    assert found.cause is Cause.SLOW_MEMBER
    assert found.member == "b"
    assert found.partitions == (TopicPartition("orders", 2), TopicPartition("orders", 3))


def test_a_slow_member_with_one_partition_is_not_a_skewed_partition() -> None:
    looks = growing({0: 200, 1: 200}, {0: 200, 1: 20}, owners="ab")

    assert cause(looks) is Cause.SLOW_MEMBER


def test_all_of_them_behind_are_too_few() -> None:
    found = diagnose(growing(dict.fromkeys(range(4), 200), dict.fromkeys(range(4), 50)))

    assert found is not None
    assert found.cause is Cause.TOO_FEW_MEMBERS
    assert "Up to 4 members" in found.remedy


def test_more_members_than_partitions_are_not_recommended() -> None:
    found = diagnose(growing({0: 200, 1: 200}, {0: 50, 1: 50}, owners="ab"))

    assert found is not None
    assert "more partitions" in found.remedy

"""What a follower makes of what its leader says."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset, PartitionData
from ottla.replication.replica import APPEND, Replica, Restart, Truncate, Wait, decide, truncation_offset
from ottla.storage.log import Log
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, batch, open_log


def log(*epochs: int, start: int = 0, durable: int | None = None) -> Log:
    """A log in which each record is of the epoch given. All of it is durable if nothing else is said."""
    made = open_log(CrashingDisk())
    if start:
        made.truncate_fully_and_start_at(start)
    for epoch in epochs:
        made.append_as_leader(batch(), leader_epoch=epoch, now_ms=NOW_MS)
    made.write_pending()
    made.mark_durable(made.end_offset if durable is None else durable)
    assert (made.start_offset, made.end_offset) == (start, start + len(epochs))
    return made


def differs(epoch: int, end_offset: int) -> PartitionData:
    return PartitionData(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))


def test_records_are_appended() -> None:
    assert decide(log(1), PartitionData(records=b"...")) is APPEND


def test_a_log_is_cut_where_the_leaders_epoch_ended() -> None:
    assert decide(log(1, 1, 2, 2), differs(2, 3)) == Truncate(3)


def test_an_epoch_that_the_leader_does_not_have_is_cut_off() -> None:
    assert decide(log(1, 1, 3), differs(2, 5)) == Truncate(2)


def test_without_epochs_of_its_own_the_leader_is_believed() -> None:
    assert truncation_offset(log(), 3, 7) == 7


def test_a_log_begins_anew_where_the_leader_does() -> None:
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=10)
    assert decide(log(1, 1), answer) == Restart(10)


def test_an_empty_log_beyond_the_leaders_end_begins_anew() -> None:
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=3)
    assert decide(log(start=20), answer) == Restart(3)


@pytest.mark.parametrize("start", [0, 1, -1])
def test_records_are_never_thrown_away_for_an_answer_that_does_not_say_why(start: int) -> None:
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start)
    assert decide(log(1, 1), answer) is Wait.BRIEFLY


def test_other_errors_are_waited_out() -> None:
    assert decide(log(1), PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)) is Wait.BRIEFLY


def epochs(*choice: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from(choice), max_size=5).map(sorted)


@given(common=epochs(1, 2), ahead=st.integers(0, 3), own=epochs(3, 5, 7), leaders=epochs(4, 6, 8))
def test_cutting_ends_where_both_logs_agree(common: list[int], ahead: int, own: list[int], leaders: list[int]) -> None:
    """An epoch has one leader: two logs that have it differ at most in how much of it they have."""
    theirs = log(*common, *leaders, 9)
    follower = [*common, *(common[-1:] * ahead), *own]
    for _ in range(len(follower)):
        if not follower:
            break
        epoch, end_offset = theirs.end_offset_for_epoch(follower[-1])
        if epoch == follower[-1] and end_offset >= len(follower):
            break
        cut = truncation_offset(log(*follower), epoch, end_offset)
        assert cut < len(follower), "each answer makes it shorter"
        follower = follower[:cut]
    assert follower == common


def test_the_high_watermark_is_never_beyond_what_is_on_disk() -> None:
    own = log(1, 1, 1, durable=2)
    replica = Replica(topic="t", topic_id=b"t" * 16, index=0, leader_epoch=1, leader_id=2, log=own, high_watermark=0)
    replica.heard(9)
    assert replica.high_watermark == 2
    own.mark_durable(3)
    replica.on_durable(1)
    assert replica.high_watermark == 3
    replica.heard(1)
    assert replica.high_watermark == 3, "it does not go back"
    replica.cut(1)
    assert replica.high_watermark == 1, "unless the log does"


def test_who_reads_from_a_follower_is_woken_and_dismissed() -> None:
    own = log(1)
    replica = Replica(topic="t", topic_id=b"t" * 16, index=0, leader_epoch=1, leader_id=2, log=own, high_watermark=0)
    heard: list[str] = []
    waiter = SimpleNamespace(more=lambda *_: heard.append("more"), gone=lambda *_: heard.append("gone"))
    replica.waiters[cast(Any, _Hashable(waiter))] = None
    replica.heard(1)
    replica.end()
    assert heard == ["more", "gone"]


class _Hashable:
    def __init__(self, waiter: SimpleNamespace) -> None:
        self.more = waiter.more
        self.gone = waiter.gone

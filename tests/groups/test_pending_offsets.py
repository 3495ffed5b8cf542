"""Offsets of transactions: pending until a marker says whether they count. Every record goes through its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.groups.batches import from_batch, to_batches
from ottla.groups.records import GroupRecord, OffsetCommitted, OffsetDeleted, TransactionEnded
from ottla.groups.shard import GroupShard
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import iter_batches, read_records
from tests.groups.harness import Dice, Host, stable_group

NOW_MS = 1_700_000_000_000


class Coordinator:
    """A shard and its log, which is all that the next one has."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.shard = GroupShard(GroupConfig(), Dice())

    def write(self, records: Sequence[GroupRecord]) -> None:
        if records:
            self.log += to_batches(records, NOW_MS)
            for record in records:
                self.shard.replay(record)

    def fail_over(self) -> None:
        self.shard = GroupShard(GroupConfig(), Dice())
        for data in self.log:
            for batch in iter_batches(data):
                for record in read_records(batch.data):
                    decoded = from_batch(batch, record)
                    assert decoded is not None
                    self.shard.replay(decoded)

    def pend(self, offset: int, *, producer: int = 1, partition: int = 0, group: str = "g", **fields: Any) -> int:
        """The error code."""
        at = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            group_id=group,
            producer_id=producer,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[at])],
            **fields,
        )
        result = self.shard.commit_transactional_offsets(request, NOW_MS)
        self.write(result.records)
        assert result.response is not None
        code: int = result.response.topics[0].partitions[0].error_code
        return code

    def put(self, offset: int, partition: int = 0) -> None:
        """A commit outside of any transaction."""
        self.write([OffsetCommitted("g", "t", partition, offset, -1, "", NOW_MS)])

    def end(self, *, commits: bool, producer: int = 1) -> None:
        self.write(self.shard.end_transaction(TransactionEnded(producer, 0, commits, 3)).records)

    def offset(self, partition: int = 0, *, stable: bool = False) -> int:
        """-88 where it is not stable."""
        asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[partition])]
        answer = self.shard.fetch_offsets(OffsetFetchRequestGroup(group_id="g", topics=asked), stable).response
        assert answer is not None
        found = answer.topics[0].partitions[0]
        return -found.error_code or found.committed_offset


@pytest.fixture(params=["stays", "moves"])
def moves(request: pytest.FixtureRequest) -> bool:
    """Whether the coordinator changes before anybody looks."""
    return bool(request.param == "moves")


def look(coordinator: Coordinator, moves: bool) -> None:
    if moves:
        coordinator.fail_over()


@pytest.mark.parametrize("commits", [True, False])
def test_they_count_when_the_transaction_commits(commits: bool, moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(3)
    assert coordinator.pend(7) == 0
    look(coordinator, moves)
    assert coordinator.offset() == 3
    assert coordinator.offset(stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    coordinator.end(commits=commits)
    look(coordinator, moves)
    assert coordinator.offset(stable=True) == (7 if commits else 3)


def test_a_transaction_ends_only_what_its_own_producer_wrote(moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.pend(7, producer=1, partition=0)
    coordinator.pend(8, producer=2, partition=1)
    coordinator.end(commits=True, producer=2)
    look(coordinator, moves)
    assert (coordinator.offset(0), coordinator.offset(1)) == (-1, 8)


def test_what_was_written_later_counts_whichever_transaction_ends_first(moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.pend(7, producer=1)
    coordinator.pend(8, producer=2)
    coordinator.end(commits=True, producer=2)
    coordinator.end(commits=True, producer=1)
    look(coordinator, moves)
    assert coordinator.offset(stable=True) == 8


def test_a_later_one_that_is_aborted_does_not_overrule(moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.pend(7, producer=1)
    coordinator.pend(8, producer=2)
    coordinator.end(commits=False, producer=2)
    coordinator.end(commits=True, producer=1)
    look(coordinator, moves)
    assert coordinator.offset() == 7


def test_a_plain_commit_overrules_what_is_pending(moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.pend(7)
    coordinator.put(9)
    coordinator.end(commits=True)
    look(coordinator, moves)
    assert coordinator.offset(stable=True) == 9


def test_what_is_removed_stays_removed(moves: bool) -> None:
    coordinator = Coordinator()
    coordinator.put(3)
    coordinator.pend(7)
    coordinator.write([OffsetDeleted("g", "t", 0)])
    coordinator.end(commits=True)
    look(coordinator, moves)
    assert coordinator.offset(stable=True) == -1


def test_a_group_of_pending_offsets_alone_exists_until_they_are_aborted() -> None:
    coordinator = Coordinator()
    coordinator.pend(7)
    assert [group.group_id for group in coordinator.shard.list_groups()] == ["g"]
    coordinator.end(commits=False)
    assert coordinator.shard.list_groups() == []


# Who may commit


def test_an_unknown_group_takes_offsets_of_who_claims_no_generation() -> None:
    coordinator = Coordinator()
    assert coordinator.pend(7) == 0
    assert coordinator.pend(7, group="other", generation_id=1, member_id="m") == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.pend(7, group="") == ErrorCode.INVALID_GROUP_ID


def test_members_must_be_members_of_this_generation() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    def commit(**fields: Any) -> int:
        at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = TxnOffsetCommitRequest(
            group_id=a.group_id, topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[at])], **fields
        )
        answer = host.shard.commit_transactional_offsets(request, host.now_ms).response
        assert answer is not None
        code: int = answer.topics[0].partitions[0].error_code
        return code

    assert commit(member_id=a.member_id, generation_id=a.generation) == 0
    assert commit(member_id=a.member_id, generation_id=a.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(member_id="nobody", generation_id=a.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit() == 0, "clients of older versions do not say who they are"

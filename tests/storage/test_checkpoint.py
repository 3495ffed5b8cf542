import errno

import pytest

from ottla.errors import BrokerError
from ottla.storage.checkpoint import LOGS_PER_SLICE
from ottla.storage.checkpoints import LOG_OFFSETS, KnownOffsets
from ottla.storage.journal_reader import JournalReader
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import NOTHING_UNSYNCED
from ottla.types import TopicPartition, topic_id_text

from .helpers_journal import (
    CONFIG,
    IDS,
    A,
    B,
    append,
    begin_checkpoint,
    checkpoint,
    commit,
    log_of,
    run_all,
    small_batch,
    start,
)


def test_after_a_checkpoint_the_segments_hold_everything_and_the_journal_is_not_needed() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    run_all(begin_checkpoint(manager))
    commit(manager, B)

    after = disk.crash(NOTHING_UNSYNCED)
    assert [entry.topic_id for entry in JournalReader(after).entries()] == [IDS[B]]
    assert log_of(start(after), A).end_offset == 3
    assert KnownOffsets.read(disk).of(IDS[A], 0).recovery_point == 3


def test_what_is_committed_while_it_runs_is_still_in_the_journal_afterwards() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    job = begin_checkpoint(manager)
    commit(manager, size=30)
    job.run()
    commit(manager, size=31)
    run_all(job.finish())
    commit(manager, B)

    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).end_offset == 3


def test_a_commit_that_is_in_flight_when_it_begins_is_not_covered() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    append(manager)
    in_flight = manager.group_commit.begin()
    assert in_flight is not None
    job = begin_checkpoint(manager)
    in_flight.run()
    manager.group_commit.finish(in_flight)
    run_all(job)
    commit(manager, B)

    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).end_offset == 2


def test_many_logs_are_done_in_slices() -> None:
    manager = start(CrashingDisk())
    many_logs(manager, 2 * LOGS_PER_SLICE + 1)

    assert run_all(begin_checkpoint(manager)) == 4
    assert manager.group_commit.unsynced == {}


def test_slices_that_are_synced_together_count_when_they_are() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    many_logs(manager, 2 * LOGS_PER_SLICE)
    log = manager.get(TopicPartition("many", 0), b"m" * 16, CONFIG)
    job = begin_checkpoint(manager)
    assert job is not None
    job.run()
    following = job.finish()
    assert log.recovery_point == 0

    run_all(following)
    assert log.recovery_point == 1
    assert KnownOffsets.read(disk.crash(NOTHING_UNSYNCED)).of(b"m" * 16, 0).recovery_point == 1


def test_what_has_gathered_is_synced_where_the_logs_to_come_are_deleted() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    many_logs(manager, 2 * LOGS_PER_SLICE)
    log = manager.get(TopicPartition("many", 0), b"m" * 16, CONFIG)
    job = begin_checkpoint(manager)
    for number in range(LOGS_PER_SLICE, 2 * LOGS_PER_SLICE):
        manager.delete(TopicPartition("many", number), b"m" * 16)
    run_all(job)

    assert log.recovery_point == 1
    after = disk.crash(NOTHING_UNSYNCED)
    assert KnownOffsets.read(after).of(b"m" * 16, 0).recovery_point == 1
    assert after.size("many-0/00000000000000000000.log") == log.segments[0].size_bytes


def test_segments_are_synced_in_pieces_from_where_the_last_checkpoint_ended() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=5)
    checkpoint(manager)
    first = log_of(manager).segments[0].size_bytes
    commit(manager, count=2)
    checkpoint(manager)
    checkpoint(manager)
    second = log_of(manager).segments[0].size_bytes
    again = disk.crash(NOTHING_UNSYNCED)
    manager = start(again)
    commit(manager)
    checkpoint(manager)

    segment = f"{A}/00000000000000000000.log"
    assert disk.counters.synced_in_pieces == [(segment, 0), (segment, first)]
    assert again.counters.synced_in_pieces == [(segment, 0), (segment, second)]  # the first is recovery's


def test_a_log_that_is_cut_meanwhile_is_synced_up_to_the_cut_only() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=5)
    job = begin_checkpoint(manager)
    manager.truncate(log_of(manager), 2)
    manager.group_commit.commit()
    commit(manager, size=77, count=4)
    run_all(job)

    assert log_of(manager).recovery_point == 2
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 6


def test_a_log_that_is_deleted_meanwhile_is_left_out() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    job = begin_checkpoint(manager)
    manager.delete(A, IDS[A])
    run_all(job)

    assert disk.open(LOG_OFFSETS).pread(200, 0) == f"0\n1\n{topic_id_text(IDS[B])} 0 1 0\n".encode()


def test_the_name_of_a_deleted_log_is_not_free_while_its_files_are_synced() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    job = begin_checkpoint(manager)
    manager.delete(A, IDS[A])
    with pytest.raises(BrokerError, match="deleted a moment ago"):
        manager.get(A, b"n" * 16, CONFIG)
    job.run()
    assert disk.exists("a-0")
    job.finish()

    assert not disk.exists("a-0")
    assert manager.get(A, b"n" * 16, CONFIG).end_offset == 0


def test_a_failed_sync_of_a_segment_is_the_end_and_nothing_is_forgotten() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains=".log", times=1))
    run_all(begin_checkpoint(manager))

    assert manager.group_commit.poisoned
    assert log_of(manager).recovery_point == 0
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 1


def test_without_room_for_its_files_it_is_tried_again() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.CREATE, path_contains="checkpoint", errno=errno.ENOSPC, times=1))
    run_all(begin_checkpoint(manager))
    assert not manager.group_commit.poisoned
    assert manager.group_commit.unsynced

    run_all(begin_checkpoint(manager))

    assert manager.group_commit.unsynced == {}
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 1


def many_logs(manager: LogManager, count: int) -> None:
    for number in range(count):
        log = manager.get(TopicPartition("many", number), b"m" * 16, CONFIG)
        log.append_as_leader(small_batch(), leader_epoch=0, now_ms=1_700_000_000_000)
        manager.group_commit.add(log)
    manager.group_commit.commit()


def test_a_full_disk_is_no_failure_where_many_files_are_synced_together() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    many_logs(manager, LOGS_PER_SLICE)
    disk.faults.append(Fault(operation=Operation.CREATE, path_contains="epoch", errno=errno.ENOSPC, times=1))
    run_all(begin_checkpoint(manager))
    assert not manager.group_commit.poisoned
    run_all(begin_checkpoint(manager))

    assert manager.group_commit.unsynced == {}
    assert KnownOffsets.read(disk.crash(NOTHING_UNSYNCED)).of(b"m" * 16, 5).recovery_point == 1


def test_a_failed_sync_of_many_files_together_is_the_end() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    many_logs(manager, LOGS_PER_SLICE)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains="many-7", errno=errno.ENOSPC, times=1))
    run_all(begin_checkpoint(manager))

    assert manager.group_commit.poisoned


def test_only_one_runs_at_a_time() -> None:
    manager = start(CrashingDisk())
    commit(manager)
    begin_checkpoint(manager)

    assert manager.checkpoint() is None

from random import Random

import pytest

from ottla.config import LogConfig
from ottla.errors import BrokerError, DiskFailedError, ErrorCode, InvariantError
from ottla.storage.checkpoints import CLEAN_SHUTDOWN, LOG_OFFSETS, RECOVERY_POINTS, START_OFFSETS
from ottla.storage.directories import topic_id_in
from ottla.storage.log_manager import METADATA, LogManager
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED
from ottla.types import METADATA_TOPIC_ID, TopicPartition

from .crash_model import ManualClock
from .helpers_journal import (
    CONFIG,
    IDS,
    A,
    B,
    append,
    checkpoint,
    commit,
    config,
    find,
    log_of,
    offsets,
    small_batch,
    start,
    work,
)


def content(disk: CrashingDisk, path: str) -> bytes:
    return disk.open(path).pread(10_000, 0)


# Starting and stopping


def test_after_a_clean_stop_nothing_is_read_but_what_is_used() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    commit(manager, B, count=2)
    manager.close()
    disk = disk.crash(NOTHING_UNSYNCED)

    manager = start(disk)
    reads = disk.counters.reads
    assert not manager.had_crashed
    assert manager.report.sentences() == []
    assert reads <= 4  # the marker, the offsets, the header of the journal's file

    assert log_of(manager, A).end_offset == 3
    assert log_of(manager, A).report.batches_checked == 0


def test_a_clean_stop_leaves_kafkas_files_too() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    manager.delete_records(log_of(manager, A), 2)
    manager.close()

    assert content(disk, RECOVERY_POINTS) == b"0\n2\n__cluster_metadata 0 0\na 0 3\n"
    assert content(disk, START_OFFSETS) == b"0\n1\na 0 2\n"
    assert disk.exists(CLEAN_SHUTDOWN)


def test_the_marker_of_a_clean_stop_is_gone_once_the_node_runs_again() -> None:
    disk = CrashingDisk()
    start(disk).close()
    start(disk)

    assert not disk.crash(NOTHING_UNSYNCED).exists(CLEAN_SHUTDOWN)


def test_what_waits_at_the_stop_is_committed() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    append(manager)
    manager.close()

    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 1


def test_the_journal_goes_on_after_a_clean_stop_and_survives_the_next_crash() -> None:
    disk = CrashingDisk()
    for round_ in range(5):
        manager = start(disk)
        commit(manager, count=2)
        assert log_of(manager).end_offset == 2 * (round_ + 1)
        manager.close()
    manager = start(disk)
    commit(manager)

    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 11


def test_a_stop_on_a_failed_disk_is_not_a_clean_one() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains="a-0"))
    with pytest.raises(DiskFailedError, match="stop cleanly"):
        manager.close()

    after = disk.crash(NOTHING_UNSYNCED)
    assert not after.exists(CLEAN_SHUTDOWN)
    assert log_of(start(after)).end_offset == 1


def test_nothing_is_committed_before_recovery_is_through() -> None:
    manager = LogManager(CrashingDisk(), config(), clock=ManualClock(), random=Random(1))
    log = manager.recover_metadata()
    log.append_as_leader(small_batch(), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log)

    with pytest.raises(InvariantError, match="recovery"):
        manager.group_commit.begin()


def test_the_metadata_log_is_recovered_before_anybody_knows_of_partitions() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    log = manager.recover_metadata()
    log.append_as_leader(small_batch(), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log)
    commit(manager, A)

    after = LogManager(disk.crash(NOTHING_UNSYNCED), config(), clock=ManualClock(), random=Random(1))
    assert after.recover_metadata().end_offset == 1
    assert (log.partition, log.topic_id) == (METADATA, METADATA_TOPIC_ID)
    after.recover(find)
    assert log_of(after, A).end_offset == 1


def test_a_log_that_nobody_opened_since_a_crash_is_still_checked_after_a_clean_stop() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    checkpoint(manager)
    commit(manager, B)
    disk = disk.crash(EVERYTHING_WRITTEN)
    manager = start(disk)
    manager.close()
    assert A not in [log.partition for log in manager.opened()]

    manager = start(disk)

    assert log_of(manager, A).end_offset == 3
    assert log_of(manager, A).report.problems == ()


def test_a_damaged_checkpoint_is_reported_and_costs_only_time() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    checkpoint(manager)
    disk.open(LOG_OFFSETS).truncate(3)

    manager = start(disk.crash(EVERYTHING_WRITTEN))

    assert any(LOG_OFFSETS in problem for problem in manager.report.problems)
    assert log_of(manager, A).end_offset == 3


# Deleting


def test_a_deleted_log_frees_its_name_at_once_and_its_room_later() -> None:
    clock = ManualClock()
    disk = CrashingDisk()
    manager = start(disk, clock=clock)
    commit(manager, A)
    manager.delete(A, IDS[A])

    assert not disk.exists("a-0")
    (doomed,) = [name for name in disk.list("") if name.endswith("-delete")]
    assert doomed.startswith("a-0.")
    assert work(manager) == []
    clock.time_ms += CONFIG.file_delete_delay_ms
    assert work(manager) == ["RemovalJob"]
    assert not disk.exists(doomed)


def test_a_removal_that_was_interrupted_is_done_after_the_next_start() -> None:
    clock = ManualClock()
    manager = start(disk := CrashingDisk(), clock=clock)
    commit(manager, A)
    manager.delete(A, IDS[A])
    disk = disk.crash(EVERYTHING_WRITTEN)
    manager = start(disk, clock=clock)
    clock.time_ms += CONFIG.file_delete_delay_ms
    work(manager)

    assert [name for name in disk.list("") if name.endswith("-delete")] == []


def test_a_log_is_not_renamed_under_a_commit_that_writes_to_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    append(manager, A)
    in_flight = manager.group_commit.begin()
    assert in_flight is not None
    manager.delete(A, IDS[A])
    with pytest.raises(BrokerError) as refusal:
        manager.get(A, b"n" * 16, CONFIG)
    in_flight.run()
    assert disk.exists("a-0")
    manager.group_commit.finish(in_flight)

    assert refusal.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert not disk.exists("a-0")
    assert manager.get(A, b"n" * 16, CONFIG).end_offset == 0
    assert manager.group_commit.unsynced == {}
    checkpoint(manager)
    assert not manager.group_commit.poisoned


def test_a_topic_made_again_under_the_same_name_starts_from_nothing_even_if_the_rename_was_lost() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    manager.delete_records(log_of(manager, A), 2)
    manager.group_commit.commit()
    checkpoint(manager)
    manager.delete(A, IDS[A])
    after = disk.crash(NOTHING_UNSYNCED)
    assert after.exists("a-0")

    manager = LogManager(after, config(), clock=ManualClock(), random=Random(1))
    manager.recover_metadata()
    manager.recover(lambda topic_id, index: None)
    log = manager.get(A, b"n" * 16, CONFIG)

    assert (log.start_offset, log.end_offset) == (0, 0)
    (stray,) = manager.strays(lambda partition: partition == A)
    assert topic_id_in(after, stray) == IDS[A]


def test_directories_that_no_partition_owns_are_reported() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    disk.make_directory("not a log")

    assert manager.strays(lambda partition: partition == A) == ["b-0"]


# Records and segments


def test_a_moved_start_is_durable_with_the_next_commit_and_after_the_checkpoint() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=5)
    manager.delete_records(log_of(manager, A), 3)
    manager.group_commit.commit()
    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).start_offset == 3
    checkpoint(manager)
    commit(manager, B)

    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).start_offset == 3


def test_retention_passes_over_all_logs_in_slices_and_leaves_closed_what_was_closed() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    known = []
    settings = LogConfig(segment_bytes=200, retention_bytes=200, file_delete_delay_ms=0)
    for number in range(10):
        partition = TopicPartition("many", number)
        known.append((partition, b"m" * 16, settings))
        log = manager.get(*known[-1])
        for _ in range(6 if number == 7 else 1):
            log.append_as_leader(small_batch(), leader_epoch=0, now_ms=1_700_000_000_000)
        manager.group_commit.add(log)
    manager.close()
    manager = start(disk)

    slices = list(manager.retention_pass(known, lambda log: log.durable_offset, slice_logs=4))

    assert len(slices) == 3
    assert sum(slices) > 0
    assert [str(log.partition) for log in manager.opened() if log.partition != METADATA] == ["many-7"]
    manager.group_commit.commit()
    work(manager)
    assert not any(name.endswith(".deleted") for name in disk.list("many-7"))
    start_offset = manager.get(*known[7]).start_offset
    after = LogManager(disk.crash(NOTHING_UNSYNCED), config(), clock=ManualClock(), random=Random(1))
    after.recover_metadata()
    after.recover(lambda topic_id, index: known[index][::2])
    assert after.get(*known[7]).start_offset == start_offset > 0


# The background


def test_a_full_journal_file_calls_for_a_checkpoint_and_the_ring_stays_small() -> None:
    clock = ManualClock()
    disk = CrashingDisk()
    manager = start(disk, clock=clock)
    done = []
    for _ in range(40):
        commit(manager, size=20_000)
        clock.time_ms += 200
        done += work(manager)

    assert "Checkpoint" in done
    assert "PrepareFile" in done
    assert len(disk.list("journal")) <= 5
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 40


def test_an_idle_node_checkpoints_once_and_then_rests() -> None:
    clock = ManualClock()
    manager = start(CrashingDisk(), clock=clock)
    commit(manager)
    assert work(manager) == []
    clock.time_ms += config().storage.recovery_checkpoint_interval_ms

    assert set(work(manager)) == {"Checkpoint"}
    clock.time_ms += 10 * config().storage.recovery_checkpoint_interval_ms
    assert work(manager) == []


def test_ten_thousand_partitions_are_known_at_the_start_without_a_look_at_any() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    for number in range(50):
        log = manager.get(TopicPartition("many", number), b"m" * 16, CONFIG)
        log.append_as_leader(small_batch(), leader_epoch=0, now_ms=1_700_000_000_000)
        manager.group_commit.add(log)
    manager.close()
    disk.counters.reads = 0
    start(disk)

    assert disk.counters.reads <= 4


def test_offsets_after_recovery_are_those_of_the_log() -> None:
    disk = CrashingDisk()
    commit(start(disk), count=3)

    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2]


def test_what_a_failed_start_could_not_sync_is_written_again_by_the_next() -> None:
    """A crash left a batch in a segment that no journal knows of. Its sync fails; the process is started again, and the
    page cache shows the batch as if all were well.
    """
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    checkpoint(manager)
    commit(manager, B)  # from here on the journal says nothing of the other log
    append(manager, A)
    started = manager.group_commit.begin()
    assert started is not None
    for write in started.shares:
        write.run()
    manager = start(disk)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains="a-0/", times=1))
    with pytest.raises(BrokerError):
        log_of(manager, A)

    manager = start(disk)
    end_offset = log_of(manager, A).end_offset
    commit(manager, A)
    manager = start(disk.crash(NOTHING_UNSYNCED))

    assert end_offset == 2
    assert offsets(log_of(manager, A)) == [0, 1, 2]

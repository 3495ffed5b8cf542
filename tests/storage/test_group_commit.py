import errno

import pytest

from ottla.config import Durability
from ottla.errors import DiskFailedError, InvariantError
from ottla.storage.journal import file_path
from ottla.storage.journal_format import Kind
from ottla.storage.journal_reader import JournalReader
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import NOTHING_UNSYNCED

from .crash_model import ManualClock
from .helpers_journal import A, B, append, checkpoint, commit, config, log_of, offsets, small_batch, start, work

JOURNAL = file_path(0)


def kinds(disk: CrashingDisk) -> list[Kind]:
    return [entry.kind for entry in JournalReader(disk).entries()]


def after_start(disk: CrashingDisk) -> None:
    """Forget what starting cost."""
    disk.counters.syncs = disk.counters.writes = disk.counters.bytes_written = disk.counters.directory_syncs = 0
    disk.counters.synced_paths.clear()


# One commit


def test_records_are_seen_and_durable_only_after_the_commit() -> None:
    manager = start(CrashingDisk())
    append(manager)
    log = log_of(manager)
    commit_ = manager.group_commit.begin()
    assert commit_ is not None
    commit_.run()
    assert (log.written_offset, log.durable_offset) == (0, 0)

    manager.group_commit.finish(commit_)

    assert (log.written_offset, log.durable_offset) == (1, 1)
    assert offsets(log) == [0]


def test_one_commit_of_many_logs_is_one_write_each_and_one_sync() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    after_start(disk)
    append(manager, A, count=5)
    append(manager, B, count=3)
    manager.group_commit.commit()

    assert disk.counters.synced_paths == [JOURNAL]
    assert disk.counters.writes == 3
    assert kinds(disk)[-2:] == [Kind.APPEND, Kind.APPEND]


def test_what_arrives_while_a_commit_runs_waits_for_the_next() -> None:
    manager = start(CrashingDisk())
    append(manager)
    first = manager.group_commit.begin()
    assert first is not None
    first.run()
    append(manager)
    manager.group_commit.finish(first)
    assert log_of(manager).durable_offset == 1

    manager.group_commit.commit()

    assert log_of(manager).durable_offset == 2


def test_nothing_to_commit_is_no_commit() -> None:
    manager = start(CrashingDisk())
    manager.group_commit.add(log_of(manager))
    empty = manager.group_commit.begin()
    assert empty is not None
    empty.run()
    manager.group_commit.finish(empty)

    assert empty.blocks == []
    assert manager.group_commit.begin() is None


def test_one_commit_is_in_flight_at_a_time() -> None:
    manager = start(CrashingDisk())
    append(manager)
    manager.group_commit.begin()

    with pytest.raises(InvariantError, match="one commit"):
        manager.group_commit.begin()


def test_a_commit_larger_than_a_block_is_several_blocks_and_still_one_commit() -> None:
    disk = CrashingDisk()
    manager = start(disk, config(file_size_bytes=32 << 20))
    manager.group_commit.segment_sync_bytes_min = 1 << 30
    for partition in (A, B):
        append(manager, partition, size=900_000, count=6)
    large = manager.group_commit.begin()
    assert large is not None
    large.run()
    manager.group_commit.finish(large)

    assert len(large.blocks) == 2
    assert [len(offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)), one))) for one in (A, B)] == [1, 1]
    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), B).end_offset == 6


def test_many_small_batches_are_written_as_one_piece() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    append(manager, count=50)
    joined = manager.group_commit.begin()
    assert joined is not None
    joined.run()
    manager.group_commit.finish(joined)

    assert len(joined.blocks[0].buffers) == 3
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == list(range(50))


# Large commits


def test_a_large_share_is_synced_in_its_segment_and_not_written_twice() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.segment_sync_bytes_min = 10_000
    commit(manager, A)
    commit(manager, B)
    checkpoint(manager)
    after_start(disk)
    append(manager, A, size=20_000)
    append(manager, B)
    manager.group_commit.commit()

    assert disk.counters.synced_paths[-1] == JOURNAL
    assert "a-0/00000000000000000000.log" in disk.counters.synced_paths
    assert disk.counters.bytes_written < 22_000
    assert kinds(disk)[-2:] == [Kind.SYNCED, Kind.APPEND]
    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).end_offset == 2


def test_one_full_batch_of_a_client_is_not_written_twice() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    checkpoint(manager)
    after_start(disk)
    append(manager, A, size=980_000)  # librdkafka ends a batch at a million bytes, what the record itself adds included
    manager.group_commit.commit()

    assert disk.counters.bytes_written < 1_000_000
    assert kinds(disk)[-1] is Kind.SYNCED


def test_a_large_share_is_journaled_while_a_checkpoint_is_still_to_sync_what_came_before() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.segment_sync_bytes_min = 10_000
    commit(manager, A)
    job = manager.checkpoint()
    assert job is not None
    append(manager, A, size=20_000)
    manager.group_commit.commit()

    assert kinds(disk)[-1] is Kind.APPEND


# Durability


def test_with_durability_os_nothing_is_synced_and_only_segments_are_written() -> None:
    disk = CrashingDisk()
    manager = start(disk, config(Durability.OS))
    commit(manager)
    after_start(disk)
    commit(manager)

    assert disk.counters.syncs == 0
    assert disk.counters.writes == 1
    assert log_of(manager).durable_offset == 2


def test_with_durability_interval_the_journal_is_synced_by_the_clock() -> None:
    disk, settings, clock = CrashingDisk(), config(Durability.INTERVAL), ManualClock()
    manager = start(disk, settings, clock)
    commit(manager)
    after_start(disk)
    commit(manager, count=3)
    assert disk.counters.syncs == 0
    assert log_of(manager).durable_offset == 4

    clock.time_ms += settings.journal.sync_interval_ms
    assert work(manager) == ["SyncJournal"]

    assert disk.counters.synced_paths == [JOURNAL]
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 4


@pytest.mark.parametrize("durability", [Durability.OS, Durability.INTERVAL])
def test_the_metadata_log_is_synced_whatever_the_durability(durability: Durability) -> None:
    disk = CrashingDisk()
    manager = start(disk, config(durability))
    metadata = manager.recover_metadata()
    append(manager)
    metadata.append_as_leader(small_batch(), leader_epoch=1, now_ms=1_700_000_000_000)
    manager.group_commit.add(metadata)
    manager.group_commit.commit()

    assert start(disk.crash(NOTHING_UNSYNCED)).recover_metadata().end_offset == 1


# When the disk fails


def test_a_failed_sync_is_the_end_even_if_the_next_one_would_work() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains="journal", times=1))
    with pytest.raises(DiskFailedError, match="Could not sync the journal"):
        commit(manager)
    with pytest.raises(DiskFailedError, match="Could not sync the journal"):
        commit(manager)

    assert manager.group_commit.poisoned
    assert log_of(manager).durable_offset == 1
    assert manager.next_job() is None


@pytest.mark.parametrize("path", ["a-0", "journal"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_refused_write_takes_the_commit_back_and_the_next_one_works(path: str, number: int) -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains=path, errno=number, times=1))
    with pytest.raises(DiskFailedError):
        commit(manager)
    log = log_of(manager)
    assert (log.end_offset, log.durable_offset, log.pending) == (1, 1, [])
    assert not manager.group_commit.poisoned

    commit(manager, size=33)

    assert log.durable_offset == 2
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1]


def test_any_other_error_of_a_write_is_the_end() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.EIO, times=1))
    with pytest.raises(DiskFailedError, match="Could not write a segment"):
        commit(manager)

    assert manager.group_commit.poisoned


def test_what_was_appended_on_top_of_a_failed_commit_goes_with_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    append(manager, size=10)
    refused = manager.group_commit.begin()
    assert refused is not None
    append(manager, size=11)
    append(manager, B)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.ENOSPC, times=1))
    with pytest.raises(DiskFailedError):
        refused.run()
    manager.group_commit.fail(refused)
    manager.group_commit.commit()

    assert log_of(manager, A).end_offset == 1
    assert log_of(manager, B).durable_offset == 1


def test_a_commit_that_can_t_be_taken_back_is_the_end() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    append(manager)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.ENOSPC, times=1))
    disk.faults.append(Fault(operation=Operation.TRUNCATE, path_contains="a-0"))
    disk.faults.append(Fault(operation=Operation.SYNC_DIRECTORY, path_contains="a-0"))
    with pytest.raises(DiskFailedError):
        manager.group_commit.commit()

    assert manager.group_commit.poisoned
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 1


def test_a_journal_that_can_t_grow_refuses_before_anything_is_written() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, size=40_000)
    disk.faults.append(Fault(operation=Operation.CREATE, path_contains="journal", errno=errno.ENOSPC))
    with pytest.raises(DiskFailedError, match="larger"):
        commit(manager, size=40_000)
    assert not manager.group_commit.poisoned
    disk.faults.clear()
    commit(manager, size=40_000)

    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 2


# What happens to logs besides appends


def test_a_truncation_is_durable_before_it_is_done() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=3)
    done: list[int] = []
    manager.truncate(log_of(manager), 1, lambda: done.append(log_of(manager).end_offset))
    assert log_of(manager).end_offset == 3
    manager.group_commit.commit()

    assert done == [1]
    assert kinds(disk)[-1] is Kind.TRUNCATE
    assert log_of(start(disk.crash(NOTHING_UNSYNCED))).end_offset == 1


def test_a_restarted_log_is_empty_and_goes_on_where_it_was_told() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=3)
    manager.restart(log_of(manager), 100)
    manager.group_commit.commit()
    commit(manager)

    log = log_of(start(disk.crash(NOTHING_UNSYNCED)))
    assert (log.start_offset, log.end_offset) == (100, 101)


def test_a_log_is_not_cut_while_something_waits_to_be_committed() -> None:
    manager = start(CrashingDisk())
    commit(manager, count=3)
    append(manager)
    append(manager, B)
    for cut in (manager.truncate, manager.restart):
        with pytest.raises(InvariantError, match="is cut when all that was appended to it is committed"):
            cut(log_of(manager), 1)
    manager.group_commit.commit()
    assert log_of(manager).end_offset == 4

    append(manager, B)
    manager.truncate(log_of(manager), 1)
    manager.group_commit.commit()
    assert (log_of(manager).end_offset, log_of(manager, B).end_offset) == (1, 2)


def test_controls_of_a_failed_commit_are_in_the_next() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A, count=3)
    manager.delete_records(log_of(manager, A), 2)
    append(manager, B)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="b-0", errno=errno.ENOSPC, times=1))
    with pytest.raises(DiskFailedError):
        manager.group_commit.commit()
    manager.group_commit.commit()

    assert log_of(start(disk.crash(NOTHING_UNSYNCED)), A).start_offset == 2


def test_nothing_more_is_done_with_a_log_that_was_deleted() -> None:
    manager = start(CrashingDisk())
    commit(manager, A, count=3)
    manager.truncate(log_of(manager, A), 1, lambda: pytest.fail("it is gone"))
    append(manager, B)
    manager.delete(A, b"a" * 16)
    manager.group_commit.commit()

    assert log_of(manager, B).durable_offset == 1


# A sync that fails


def test_a_sync_that_failed_with_the_first_block_of_a_file_does_not_take_what_follows_with_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    append(manager)
    disk.faults.append(Fault(operation=Operation.SYNC, path_contains=JOURNAL, times=1))
    with pytest.raises(DiskFailedError):
        manager.group_commit.commit()
    manager = start(disk)  # the process is started again, the machine is not
    before = log_of(manager).end_offset
    commit(manager)

    manager = start(disk.crash(NOTHING_UNSYNCED))

    assert log_of(manager).end_offset == before + 1


# All or nothing


def test_a_whole_commit_is_in_the_journal_before_it_is_in_any_segment() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    order: list[str] = []
    disk.before_operation = lambda operation, path: order.append(f"{operation} {path.split('/')[0]}")
    append(manager, A)
    append(manager, B)
    manager.group_commit.keep_whole()
    manager.group_commit.commit()

    assert order[:2] == ["write journal", "sync journal"]
    assert sorted(order[2:]) == [f"write {A}", f"write {B}"]


def test_a_whole_commit_is_one_block_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.group_commit.BLOCK_BYTES_MAX", 100)
    disk = CrashingDisk()
    manager = start(disk)
    blocks = []
    for is_whole in (True, False):
        append(manager, A, count=5)
        append(manager, B, count=5)
        if is_whole:
            manager.group_commit.keep_whole()
        commit_ = manager.group_commit.begin()
        assert commit_ is not None
        commit_.run()
        manager.group_commit.finish(commit_)
        blocks.append(len(commit_.blocks))

    assert blocks == [1, 2]


def test_a_whole_commit_syncs_no_segment_for_its_size() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    checkpoint(manager)
    manager.group_commit.segment_sync_bytes_min = 1
    append(manager, A)
    manager.group_commit.keep_whole()
    whole = manager.group_commit.begin()
    assert whole is not None
    whole.run()
    manager.group_commit.finish(whole)
    append(manager, A)
    plain = manager.group_commit.begin()
    assert plain is not None
    plain.run()
    manager.group_commit.finish(plain)

    assert not whole.to_sync
    assert plain.to_sync


def test_what_must_be_whole_falls_with_the_commit_before_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    append(manager, A)
    failing = manager.group_commit.begin()
    assert failing is not None
    append(manager, B)
    manager.group_commit.keep_whole()
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC, times=1))
    with pytest.raises(DiskFailedError):
        failing.run()
    gone = manager.group_commit.fail(failing)

    assert {log.partition for log in gone} == {A, B}
    assert (log_of(manager, A).end_offset, log_of(manager, B).end_offset) == (1, 1)
    assert manager.group_commit.begin() is None

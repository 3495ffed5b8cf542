"""Small writes that wait in memory, where everything else about a log must be as if they had been written."""

import errno
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ottla.config import Durability
from ottla.errors import BrokerError, DiskFailedError, ErrorCode, InvariantError
from ottla.protocol.records import Record, build_batch, iter_batches
from ottla.runtime.disk import OsDisk
from ottla.storage.group_commit import Commit
from ottla.storage.held import Held
from ottla.storage.log import Log
from ottla.storage.log_append import HELD_PIECES_MAX, HELD_SMALL_BYTES_MAX
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED
from ottla.types import TopicPartition

from .crash_model import ManualClock
from .helpers_journal import A, B, append, checkpoint, commit, config, find, log_of, offsets, small_batch, start

pytestmark = pytest.mark.usefixtures("held_shares")

FILE_OF_A = "a-0/00000000000000000000.log"
BATCH_BYTES = len(small_batch())


def hold(manager: LogManager, partition: TopicPartition = A, *, count: int = 1, size: int = 20) -> None:
    append(manager, partition, count=count, size=size)
    manager.group_commit.commit(hold=True)


def sizes(disk: CrashingDisk, *partitions: TopicPartition) -> list[int]:
    paths = [f"{partition.topic}-0/00000000000000000000.log" for partition in partitions]
    return [disk.size(path) if disk.exists(path) else 0 for path in paths]


def test_a_small_share_goes_into_the_journal_alone_and_is_read_and_durable() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=2)
    hold(manager)

    assert sizes(disk, A) == [BATCH_BYTES]
    assert offsets(log_of(manager)) == [0, 1, 2, 3]
    assert log_of(manager).durable_offset == 4
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN):
        assert offsets(log_of(start(disk.crash(survival)))) == [0, 1, 2, 3]


def test_the_first_write_of_a_segment_makes_its_file() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    hold(manager)
    assert sizes(disk, A) == [BATCH_BYTES]
    log_of(manager).roll(1_700_000_000_000)
    hold(manager)

    assert disk.size("a-0/00000000000000000001.log") == BATCH_BYTES


def test_a_read_goes_on_from_the_file_into_what_is_held() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=3)
    hold(manager, count=3)
    log = log_of(manager)

    assert sizes(disk, A) == [3 * BATCH_BYTES]
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    for offset in range(6):
        read = log.read(offset, 1 << 20, upto_offset=6, min_one_batch=True)
        assert len(read) == (6 - offset) * BATCH_BYTES
        assert int.from_bytes(read[:8]) == offset
    assert len(log.read(4, 1 << 20, upto_offset=5, min_one_batch=True)) == BATCH_BYTES
    found = log.max_timestamp()
    assert found is not None
    assert found.offset == 0


def test_what_is_held_in_pieces_is_read_cut_and_written_as_one() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    log = log_of(manager)
    large = HELD_SMALL_BYTES_MAX
    for size in (20, large, large, 20, 20):
        hold(manager, size=size)
        assert offsets(log)[-1] == log.end_offset - 1, "whoever reads at the end finds what was just added"
    hold(manager, size=large)
    hold(manager, size=large)
    whole = log.read(0, 1 << 20, upto_offset=8, min_one_batch=True)
    assert (len(whole), offsets(log)) == (log.size_bytes, list(range(8)))
    last = log.read(7, 1 << 20, upto_offset=8, min_one_batch=True)
    assert (int.from_bytes(last[:8]), whole.endswith(last)) == (7, True)
    assert sizes(disk, A) == [BATCH_BYTES]
    log.truncate_to(7)
    hold(manager, size=large)
    assert offsets(log) == list(range(8))
    log.write_held()
    assert sizes(disk, A) == [log.size_bytes]
    assert offsets(log) == list(range(8))


def test_many_small_pieces_become_one() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    log = log_of(manager)
    count = 2 * HELD_PIECES_MAX
    most = 0
    for _ in range(count):
        hold(manager)
        most = max(most, len(log.segments[-1].held))

    assert most <= HELD_PIECES_MAX
    assert sizes(disk, A) == [BATCH_BYTES]
    assert offsets(log) == list(range(count + 1))
    log.write_held()
    assert sizes(disk, A) == [log.size_bytes]
    assert offsets(log) == list(range(count + 1))


def test_a_larger_write_takes_what_is_held_with_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=2)
    hold(manager, size=100_000)
    log = log_of(manager)

    assert sizes(disk, A) == [log.size_bytes]
    assert offsets(log) == [0, 1, 2, 3]
    manager.close()
    assert offsets(log_of(start(disk))) == [0, 1, 2, 3]


def test_what_is_synced_in_its_segment_is_never_held() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager)
    manager.group_commit.segment_sync_bytes_min = BATCH_BYTES
    hold(manager)

    assert sizes(disk, A) == [3 * BATCH_BYTES]
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2]


def test_a_roll_writes_what_the_old_segment_held() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=2)
    log_of(manager).roll(1_700_000_000_000)
    hold(manager)

    assert sizes(disk, A) == [3 * BATCH_BYTES]
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2, 3]


def test_a_checkpoint_writes_and_syncs_what_is_held_and_the_journal_may_forget_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, A)
    commit(manager, B)
    hold(manager, A, count=2)
    hold(manager, B)
    assert sizes(disk, A, B) == [BATCH_BYTES, BATCH_BYTES]
    checkpoint(manager)

    assert sizes(disk, A, B) == [3 * BATCH_BYTES, 2 * BATCH_BYTES]
    assert manager.group_commit.held.size_bytes == 0
    after = disk.crash(NOTHING_UNSYNCED)
    for name in after.list("journal"):
        after.remove(f"journal/{name}")
    restarted = start(after)
    assert [offsets(log_of(restarted, one)) for one in (A, B)] == [[0, 1, 2], [0, 1]]


def test_a_log_that_holds_much_is_written() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.held = Held(log_bytes_max=2 * BATCH_BYTES)
    commit(manager)
    hold(manager, count=2)
    assert sizes(disk, A) == [BATCH_BYTES]
    hold(manager)

    assert sizes(disk, A) == [4 * BATCH_BYTES]
    assert manager.group_commit.held.size_bytes == 0


def test_of_all_that_is_held_the_oldest_is_written_first() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.held = Held(all_bytes_max=3 * BATCH_BYTES)
    commit(manager, A)
    commit(manager, B)
    hold(manager, A)
    hold(manager, B, count=2)
    assert sizes(disk, A, B) == [BATCH_BYTES, BATCH_BYTES]
    hold(manager, B)

    assert sizes(disk, A, B) == [2 * BATCH_BYTES, BATCH_BYTES]
    assert manager.group_commit.held.size_bytes == 3 * BATCH_BYTES


@pytest.mark.parametrize("cut_at", [1, 2, 3, 4])
def test_a_log_may_be_cut_in_what_it_holds_and_before_it(cut_at: int) -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager, count=2)
    hold(manager, count=3)
    log = log_of(manager)
    manager.truncate(log, cut_at, lambda: None)
    manager.group_commit.commit()
    assert offsets(log) == list(range(cut_at))
    hold(manager, size=30)

    assert offsets(log) == list(range(cut_at + 1))
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN):
        assert offsets(log_of(start(disk.crash(survival)))) == list(range(cut_at + 1))


def test_a_deleted_log_holds_nothing() -> None:
    manager = start(CrashingDisk())
    commit(manager)
    hold(manager)
    assert manager.group_commit.held.size_bytes == BATCH_BYTES
    manager.delete(A, b"a" * 16)
    manager.group_commit.commit()

    assert manager.group_commit.held.size_bytes == 0


def test_a_log_that_is_deleted_when_it_was_about_to_be_written_is_left_alone(tmp_path: Path) -> None:
    """On a real disk: one in memory goes on writing to a file that has another name now."""
    manager = LogManager(OsDisk(str(tmp_path)), config(), clock=ManualClock(), random=Random(3))
    manager.recover_metadata()
    manager.recover(find)
    group = manager.group_commit
    group.held = Held(log_bytes_max=0)
    commit(manager)
    append(manager)
    held = group.begin(hold=True)
    assert held is not None
    held.run()
    group.finish(held)
    assert group.held.is_too_much
    log_of(manager).segments[-1].close()
    manager.delete(A, b"a" * 16)
    group.write_held()
    group.commit()

    assert not group.poisoned
    assert group.held.size_bytes == 0
    manager.close()


def test_without_a_journal_nothing_is_held() -> None:
    disk = CrashingDisk()
    manager = start(disk, config(Durability.OS))
    hold(manager)
    hold(manager)

    assert sizes(disk, A) == [2 * BATCH_BYTES]


def test_after_a_refused_commit_what_was_held_is_there_without_room_for_it() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=2)
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
    with pytest.raises(DiskFailedError):
        hold(manager)
    log = log_of(manager)

    assert not manager.group_commit.poisoned
    assert (offsets(log), log.end_offset, log.durable_offset) == ([0, 1, 2], 3, 3)
    disk.faults.clear()
    hold(manager)
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2, 3]


def test_what_the_disk_has_no_room_for_stays_and_nothing_more_is_held_until_there_is() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    manager.group_commit.held = Held(log_bytes_max=BATCH_BYTES)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.ENOSPC))
    hold(manager, count=2)
    assert offsets(log_of(manager)) == [0, 1, 2]
    with pytest.raises(DiskFailedError):
        hold(manager)
    assert offsets(log_of(manager)) == [0, 1, 2]
    assert not manager.group_commit.poisoned

    disk.faults.clear()
    checkpoint(manager)

    assert sizes(disk, A) == [3 * BATCH_BYTES]
    hold(manager)
    assert sizes(disk, A) == [3 * BATCH_BYTES]
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2, 3]


def test_a_disk_that_fails_to_write_what_is_held_is_the_end() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.held = Held(log_bytes_max=0)
    commit(manager)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.EIO))
    hold(manager)

    assert manager.group_commit.poisoned
    disk.faults.clear()
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1]


def test_a_part_of_what_was_held_in_the_file_does_not_come_twice() -> None:
    """A write that was refused half-way, then a commit that was."""
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=2)
    log = log_of(manager)
    written = log.read(1, 1 << 20, upto_offset=2, min_one_batch=True)
    disk.open(FILE_OF_A).pwritev([written], BATCH_BYTES)
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
    with pytest.raises(DiskFailedError):
        hold(manager)
    disk.faults.clear()

    assert offsets(log) == [0, 1, 2]
    checkpoint(manager)
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2]


def numbered(sequence: int) -> bytes:
    record = Record(timestamp_ms=1_700_000_000_000, key=None, value=b"%d" % sequence)
    return build_batch([record], producer_id=5, producer_epoch=0, base_sequence=sequence)


def lead(manager: LogManager, sequence: int) -> None:
    log = log_of(manager)
    log.append_as_leader(numbered(sequence), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log)


def test_a_producer_goes_on_behind_what_was_held_when_a_commit_was_refused() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    for sequence in range(3):
        lead(manager, sequence)
        manager.group_commit.commit(hold=True)
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
    lead(manager, 3)
    with pytest.raises(DiskFailedError):
        manager.group_commit.commit(hold=True)
    disk.faults.clear()

    with pytest.raises(BrokerError) as refused:
        lead(manager, 4)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    for sequence in (3, 4):
        lead(manager, sequence)
    manager.group_commit.commit(hold=True)
    assert log_of(manager).durable_offset == 5


def test_a_follower_that_had_no_room_and_then_got_the_batch_does_not_ask_for_it_when_it_leads() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    lead(manager, 0)
    manager.group_commit.commit(hold=True)
    log = log_of(manager)
    second = bytearray(numbered(1))
    second[:8] = (1).to_bytes(8)
    disk.faults.append(Fault(operation=Operation.WRITE, errno=errno.ENOSPC))
    for refused in (True, False):
        log.append_as_follower(second)
        manager.group_commit.add(log)
        if refused:
            with pytest.raises(DiskFailedError):
                manager.group_commit.commit(hold=True)
            disk.faults.clear()
        else:
            manager.group_commit.commit(hold=True)

    lead(manager, 2)
    manager.group_commit.commit(hold=True)
    assert log.durable_offset == 3


def test_what_was_held_may_need_another_segment_when_the_log_is_loaded_anew() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager, count=3)
    append(manager)
    log = log_of(manager)
    log.config = replace(log.config, segment_bytes=2 * BATCH_BYTES)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="journal", errno=errno.ENOSPC, times=1))
    with pytest.raises(DiskFailedError):
        manager.group_commit.commit(hold=True)

    assert not manager.group_commit.poisoned
    assert (log.end_offset, log.durable_offset) == (4, 4)
    assert log.read(3, 1_000, upto_offset=4, min_one_batch=True)[:8] == (3).to_bytes(8)
    manager.truncate(log, 3, lambda: None)
    manager.group_commit.commit()
    assert log.end_offset == 3


def begin_in_thread(manager: LogManager, partition: TopicPartition = A, *, count: int = 1, size: int = 20) -> Commit:
    """A commit that a thread runs: other things happen before its end."""
    append(manager, partition, count=count, size=size)
    commit = manager.group_commit.begin(hold=True, writes_later=False)
    assert commit is not None
    return commit


def end(manager: LogManager, commit: Commit) -> None:
    commit.run()
    manager.group_commit.finish(commit)


def all_offsets(log: Log) -> list[int]:
    """A read ends with its segment."""
    found: list[int] = []
    while len(found) < log.end_offset:
        records = log.read(len(found), 1 << 20, upto_offset=log.end_offset, min_one_batch=True)
        found += [batch.base_offset for batch in iter_batches(records)]
    return found


def test_a_thread_s_commit_holds_too_while_more_is_appended() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    first = begin_in_thread(manager)
    append(manager)
    end(manager, first)
    log = log_of(manager)

    assert sizes(disk, A) == [BATCH_BYTES]
    assert (log.durable_offset, log.end_offset) == (2, 3)
    assert len(log.read(0, 1 << 20, upto_offset=2, min_one_batch=True)) == 2 * BATCH_BYTES
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1]
    manager.group_commit.commit(hold=True)
    assert offsets(log) == [0, 1, 2]
    assert sizes(disk, A) == [BATCH_BYTES]


def test_a_segment_that_ends_while_a_thread_commits_gets_what_it_was_to_hold() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager)
    first = begin_in_thread(manager)
    log = log_of(manager)
    log.roll(1_700_000_000_000)
    append(manager)
    log.roll(1_700_000_000_000)
    append(manager)
    assert sizes(disk, A) == [3 * BATCH_BYTES]
    assert log.durable_offset == 2
    end(manager, first)
    assert log.durable_offset == 3
    manager.group_commit.commit(hold=True)

    assert manager.group_commit.held.size_bytes == 0
    assert all_offsets(log) == [0, 1, 2, 3, 4]
    for survival in (NOTHING_UNSYNCED, EVERYTHING_WRITTEN):
        assert all_offsets(log_of(start(disk.crash(survival)))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rolls", [False, True])
def test_a_thread_s_commit_that_is_refused_takes_back_what_was_to_be_held(rolls: bool) -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager)
    first = begin_in_thread(manager)
    log = log_of(manager)
    if rolls:
        log.roll(1_700_000_000_000)
    append(manager)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="journal", errno=errno.ENOSPC, times=1))
    with pytest.raises(DiskFailedError):
        first.run()
    manager.group_commit.fail(first)

    assert not manager.group_commit.poisoned
    assert (offsets(log), log.end_offset, log.durable_offset) == ([0, 1], 2, 2)
    hold(manager)
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2]


def test_a_segment_that_can_not_end_for_want_of_room_does_not_while_a_thread_commits() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    first = begin_in_thread(manager)
    log = log_of(manager)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains="a-0", errno=errno.ENOSPC, times=1))
    with pytest.raises(OSError, match="No space"):
        log.roll(1_700_000_000_000)
    end(manager, first)

    assert sizes(disk, A) == [BATCH_BYTES]
    assert offsets(log) == [0, 1]
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1]


def test_a_checkpoint_that_begins_while_a_thread_commits_leaves_the_rest_in_the_journal() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    commit(manager)
    hold(manager)
    first = begin_in_thread(manager)
    checkpoint(manager)
    assert sizes(disk, A) == [2 * BATCH_BYTES]
    end(manager, first)

    assert log_of(manager).recovery_point == 2
    assert sizes(disk, A) == [2 * BATCH_BYTES]
    assert offsets(log_of(manager)) == [0, 1, 2]
    assert offsets(log_of(start(disk.crash(NOTHING_UNSYNCED)))) == [0, 1, 2]
    checkpoint(manager)
    assert sizes(disk, A) == [3 * BATCH_BYTES]


def test_a_log_that_is_deleted_while_a_thread_commits_holds_nothing() -> None:
    manager = start(CrashingDisk())
    commit(manager)
    first = begin_in_thread(manager)
    manager.delete(A, b"a" * 16)
    end(manager, first)
    manager.group_commit.commit()

    assert manager.group_commit.held.size_bytes == 0
    assert not manager.group_commit.unsynced
    manager.group_commit.write_held()
    assert not manager.group_commit.poisoned


def test_a_log_may_not_be_cut_while_a_share_of_it_is_under_way() -> None:
    manager = start(CrashingDisk())
    commit(manager)
    first = begin_in_thread(manager)
    with pytest.raises(InvariantError):
        log_of(manager).truncate_to(0)
    end(manager, first)
    assert log_of(manager).truncate_to(0) == 0


def test_where_threads_commit_much_is_written_with_the_next_share() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.held = Held(log_bytes_max=2 * BATCH_BYTES)
    commit(manager)
    for held in (1, 3):
        end(manager, begin_in_thread(manager, count=held))
    assert sizes(disk, A) == [BATCH_BYTES]
    end(manager, begin_in_thread(manager))

    assert sizes(disk, A) == [6 * BATCH_BYTES]
    assert manager.group_commit.held.size_bytes == 0
    assert offsets(log_of(manager)) == [0, 1, 2, 3, 4, 5]


def test_where_threads_commit_nothing_is_held_once_all_is_much() -> None:
    disk = CrashingDisk()
    manager = start(disk)
    manager.group_commit.held = Held(all_bytes_max=BATCH_BYTES)
    commit(manager, A)
    commit(manager, B)
    end(manager, begin_in_thread(manager, A, count=2))
    end(manager, begin_in_thread(manager, B))
    assert sizes(disk, A, B) == [BATCH_BYTES, 2 * BATCH_BYTES]
    end(manager, begin_in_thread(manager, A))

    assert sizes(disk, A, B) == [4 * BATCH_BYTES, 2 * BATCH_BYTES]
    assert manager.group_commit.held.size_bytes == 0

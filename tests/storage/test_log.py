import errno

import pytest

from ottla.errors import BrokerError, DiskFailedError, ErrorCode, InvariantError
from ottla.protocol.records import iter_batches
from ottla.storage.log import Log
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import NOTHING_UNSYNCED
from tests.storage.batches import DIRECTORY, NOW_MS, append, batch, commit, contents, fill, open_log, read_file

BATCH_BYTES = len(batch(bytes(100)))


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


def several_segments(disk: CrashingDisk, batches: int = 10) -> Log:
    """Three batches to a segment."""
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, batches)
    return log


# Reading


def offsets_of(data: bytes) -> list[int]:
    return [found.base_offset for found in iter_batches(data)]


@pytest.mark.parametrize("max_bytes", [10 * BATCH_BYTES, 5 * BATCH_BYTES])
def test_a_read_ends_with_its_segment(disk: CrashingDisk, max_bytes: int) -> None:
    log = several_segments(disk)

    assert offsets_of(log.read(1, max_bytes, upto_offset=10, min_one_batch=True)) == [1, 2]
    assert offsets_of(log.read(3, max_bytes, upto_offset=10, min_one_batch=True)) == [3, 4, 5]


def test_a_read_begins_with_the_batch_that_holds_the_offset(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", b"b", b"c"), batch(b"d", b"e"))

    assert offsets_of(log.read(2, 1000, upto_offset=5, min_one_batch=True)) == [0, 3]
    assert offsets_of(log.read(4, 1000, upto_offset=5, min_one_batch=True)) == [3]


def test_a_read_may_end_in_the_middle_of_a_batch(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 3)

    assert len(log.read(0, 2 * BATCH_BYTES - 1, upto_offset=3, min_one_batch=True)) == 2 * BATCH_BYTES - 1


@pytest.mark.parametrize("max_bytes", [0, 5, 50, BATCH_BYTES - 1])
def test_the_first_batch_is_whole_or_not_there(disk: CrashingDisk, max_bytes: int) -> None:
    log = open_log(disk)
    fill(log, 3)

    assert log.read(1, max_bytes, upto_offset=3, min_one_batch=False) == b""
    assert len(log.read(1, max_bytes, upto_offset=3, min_one_batch=True)) == BATCH_BYTES


@pytest.mark.parametrize("upto", range(1, 10))
def test_a_read_never_passes_the_offset_it_was_given(disk: CrashingDisk, upto: int) -> None:
    several_segments(disk).close()
    log = open_log(disk)  # nothing is known of recent writes

    for offset in range(upto):
        found = offsets_of(log.read(offset, 10_000, upto_offset=upto, min_one_batch=True))
        assert found
        assert found[0] == offset
        assert found[-1] < upto


def test_a_tail_reader_needs_one_read_of_the_file(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 500)
    log.read(499, 10_000, upto_offset=500, min_one_batch=True)
    fill(log, 1)
    log.read(500, 10_000, upto_offset=501, min_one_batch=True)
    reads = disk.counters.reads

    for offset in range(501, 541):
        fill(log, 1)
        assert offsets_of(log.read(offset, 10_000, upto_offset=offset + 1, min_one_batch=True)) == [offset]

    assert disk.counters.reads == reads + 40


@pytest.mark.parametrize("is_new", [True, False])
def test_what_producers_wrote_is_not_scanned_for_the_first_reader(disk: CrashingDisk, is_new: bool) -> None:
    if not is_new:
        log = open_log(disk)
        fill(log, 3)
        log.close()
    log = open_log(disk)
    fill(log, 500)  # by a producer without an id, so that no append asked what is known of producers
    reads = disk.counters.reads

    assert log.last_stable_offset == log.durable_offset

    assert disk.counters.reads == reads


def test_a_read_where_nothing_is_yet_is_empty(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 3)

    assert log.read(3, 1000, upto_offset=3, min_one_batch=True) == b""
    assert log.read(2, 1000, upto_offset=1, min_one_batch=True) == b""


@pytest.mark.parametrize("offset", [-1, 0, 1, 6, 100])
def test_an_offset_outside_of_the_log_is_refused(disk: CrashingDisk, offset: int) -> None:
    log = open_log(disk)
    fill(log, 5)
    log.delete_records_before(2)

    with pytest.raises(BrokerError) as refused:
        log.read(offset, 1000, upto_offset=5, min_one_batch=True)

    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_read_passes_over_a_segment_whose_records_are_all_older(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_follower(batch(b"a", base_offset=0))
    log.roll(NOW_MS)
    log.append_as_follower(batch(b"b", base_offset=7))
    commit(log)

    assert offsets_of(log.read(3, 1000, upto_offset=8, min_one_batch=True)) == [7]


def test_a_disk_that_can_not_be_read_is_a_storage_error(disk: CrashingDisk) -> None:
    fill(log := open_log(disk), 1)
    log.close()
    log = open_log(disk)
    disk.remove(f"{DIRECTORY}/{0:020d}.log")
    log.segments[0].close()

    with pytest.raises(BrokerError) as refused:
        log.read(0, 1000, upto_offset=1, min_one_batch=True)

    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


# Epochs


def test_where_an_epoch_ended(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", b"b"), leader_epoch=1)
    append(log, batch(b"c"), leader_epoch=3)

    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 3, 4)] == [(0, 0), (1, 2), (1, 2), (3, 3), (-1, -1)]


# Cutting


@pytest.mark.parametrize("offset", range(11))
def test_truncation_leaves_what_is_below(disk: CrashingDisk, offset: int) -> None:
    log = several_segments(disk)

    assert log.truncate_to(offset) == offset

    assert [found for found, _ in contents(log)] == list(range(offset))
    assert log.end_offset == log.written_offset == offset
    fill(log, 5)
    assert [found for found, _ in contents(log)] == list(range(offset + 5))
    log.close()
    assert verify_log_directory(disk, DIRECTORY).problems == ()


def test_a_batch_is_cut_as_a_whole(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a"), batch(b"b", b"c", b"d"))

    assert log.truncate_to(2) == 1
    assert contents(log) == [(0, b"a")]


def test_truncation_forgets_epochs_and_producers(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0), leader_epoch=1)
    append(log, batch(b"b", producer_id=7, epoch=0, sequence=1), leader_epoch=2)
    append(log, batch(b"c", producer_id=8, epoch=0, sequence=0), leader_epoch=2)

    log.truncate_to(1)

    assert log.leader_epochs.entries() == [(1, 0)]
    assert [(producer.producer_id, producer.last_sequence) for producer in log.producers.active()] == [(7, 0)]
    assert append(log, batch(b"b2", producer_id=7, epoch=0, sequence=1), leader_epoch=1) == 1
    assert log.leader_epochs.entries() == [(1, 0)]


def test_truncation_drops_what_is_pending_too(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a"))
    log.append_as_leader(batch(b"b"), leader_epoch=0, now_ms=NOW_MS)

    log.truncate_to(1)

    assert log.take_pending() is None
    assert contents(log) == [(0, b"a")]


def test_a_log_can_not_be_cut_under_a_write(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    log.take_pending()

    with pytest.raises(InvariantError):
        log.truncate_to(0)


def test_a_log_may_start_anew_somewhere_else(disk: CrashingDisk) -> None:
    log = several_segments(disk)

    log.truncate_fully_and_start_at(1_000)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (1_000, 1_000, 0)
    assert log.leader_epochs.entries() == []
    assert append(log, batch(b"a")) == 1_000
    log.close()
    assert contents(open_log(disk)) == [(1_000, b"a")]


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_log_remembers_where_it_goes_on(disk: CrashingDisk, clean: bool) -> None:
    log = several_segments(disk)
    log.truncate_fully_and_start_at(1_000)
    log.close()

    log = open_log(disk, clean=clean)

    assert (log.start_offset, log.end_offset) == (1_000, 1_000)


def test_deleting_records_moves_the_start_forward_only(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", b"b"), leader_epoch=1)
    append(log, batch(b"c"), leader_epoch=2)

    log.delete_records_before(2)
    log.delete_records_before(1)

    assert log.start_offset == 2
    assert contents(log) == [(2, b"c")]
    assert log.leader_epochs.entries() == [(2, 2)]
    with pytest.raises(BrokerError) as refused:
        log.delete_records_before(4)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_start_is_given_back_at_the_next_open(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.close()

    assert contents(open_log(disk, start_offset=4))[0][0] == 4


def test_a_log_that_ends_before_its_start_begins_anew_there(disk: CrashingDisk) -> None:
    several_segments(disk).close()

    log = open_log(disk, start_offset=500)

    assert (log.start_offset, log.end_offset) == (500, 500)
    assert any("before its start" in problem for problem in log.report.problems)
    assert append(log, batch(b"a")) == 500


# Retention


def test_deleted_segments_are_renamed_and_then_removed(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.delete_records_before(7)

    deleted = log.delete_old_segments(NOW_MS, high_watermark=10)

    assert [(segment.base_offset, segment.size_bytes) for segment in deleted] == [
        (0, 3 * BATCH_BYTES),
        (3, 3 * BATCH_BYTES),
    ]
    assert [segment.base_offset for segment in log.segments] == [6, 9]
    assert all(path.endswith(".deleted") and disk.exists(path) for segment in deleted for path in segment.paths)
    assert f"{3:020d}.snapshot" not in disk.list(DIRECTORY)
    for segment in deleted:
        segment.remove()
    assert not any(name.endswith(".deleted") for name in disk.list(DIRECTORY))
    assert [offset for offset, _ in contents(log)] == [7, 8, 9]


def test_when_all_is_too_old_the_log_goes_on_in_an_empty_segment(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.sync()

    log.delete_old_segments(NOW_MS + 10**10, high_watermark=10)
    after_crash = open_log(disk.crash(NOTHING_UNSYNCED), clean=False, recovery_point=10, start_offset=10)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)
    assert (after_crash.start_offset, after_crash.end_offset) == (10, 10)
    assert append(log, batch(b"a")) == 10


def test_nothing_is_deleted_above_the_high_watermark(disk: CrashingDisk) -> None:
    log = several_segments(disk)

    log.delete_old_segments(NOW_MS + 10**10, high_watermark=5)

    assert log.start_offset == 3


# Syncing


def synced_files(disk: CrashingDisk) -> set[str]:
    return {path.rpartition("/")[2] for path in disk.counters.synced_paths}


def test_a_sync_covers_every_file_that_changed(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 4)

    log.sync()

    assert log.recovery_point == log.durable_offset == 4
    assert synced_files(disk) == {
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{3:020d}.log",
        f"{3:020d}.snapshot",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata",
    }
    assert disk.counters.directory_syncs > 0


def test_a_second_sync_has_nothing_to_do(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.sync()
    syncs = disk.counters.syncs

    assert log.take_dirty_files() == []
    log.sync()

    assert disk.counters.syncs == syncs


def test_after_a_sync_everything_survives_a_crash(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.sync()
    held = contents(log)

    log = open_log(disk.crash(NOTHING_UNSYNCED), clean=False, recovery_point=10)

    assert contents(log) == held
    assert log.report.problems == ()
    assert log.report.batches_checked == 0
    assert log.leader_epochs.entries() == [(0, 0)]


def test_a_write_during_a_sync_is_covered_by_the_next(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a"))
    log.append_as_leader(batch(b"b"), leader_epoch=0, now_ms=NOW_MS)
    write = log.take_pending()
    assert write is not None
    offset, targets = log.written_offset, log.take_dirty_files()
    write.run()
    write.finish()
    for target in targets:
        target.sync()
    log.synced_upto(offset)

    assert log.recovery_point == 1
    assert log.take_dirty_files() != []


def test_a_file_that_was_deleted_while_it_waited_is_not_a_failed_sync(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    targets = log.take_dirty_files()
    disk.remove_tree(DIRECTORY)

    for target in targets:
        target.sync()


# Stopping


def test_closing_an_idle_log_does_nothing(disk: CrashingDisk) -> None:
    several_segments(disk).close()
    log = open_log(disk)
    writes, syncs = disk.counters.writes, disk.counters.syncs

    log.close()

    assert (disk.counters.writes, disk.counters.syncs) == (writes, syncs)


def test_a_log_that_was_never_written_leaves_nothing(disk: CrashingDisk) -> None:
    open_log(disk).close()

    assert disk.list("") == []


def test_a_stop_leaves_the_files_that_kafka_expects(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0), leader_epoch=2)

    log.close()

    assert disk.list(DIRECTORY) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{1:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert read_file(disk, "leader-epoch-checkpoint") == b"0\n1\n2 0\n"


# Failed writes


def test_reload_forgets_what_is_not_durable(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0), leader_epoch=1)
    durable = log.end_offset
    log.append_as_leader(batch(b"b", producer_id=7, epoch=0, sequence=1), leader_epoch=2, now_ms=NOW_MS)
    disk.faults.append(Fault(operation=Operation.WRITE, path_contains=".log", errno=errno.ENOSPC, times=1))
    with pytest.raises(OSError, match="No space"):
        log.write_pending()

    log.reload(durable)

    assert (log.end_offset, log.written_offset, log.durable_offset) == (1, 1, 1)
    assert log.leader_epochs.entries() == [(1, 0)]
    assert contents(log) == [(0, b"a")]
    assert append(log, batch(b"b", producer_id=7, epoch=0, sequence=1), leader_epoch=1) == 1
    assert contents(log) == [(0, b"a"), (1, b"b")]


def test_what_comes_after_a_batch_that_was_taken_back_waits_for_it(disk: CrashingDisk) -> None:
    """A client that is told that its sequence is out of order sends all again, in a new epoch."""
    log = open_log(disk)
    first, second, third = (batch(producer_id=7, epoch=0, sequence=sequence) for sequence in range(3))
    append(log, first)
    log.append_as_leader(second, leader_epoch=0, now_ms=NOW_MS)
    log.reload(1)
    with pytest.raises(BrokerError) as refused:
        append(log, third)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [append(log, each) for each in (second, third)] == [1, 2]


def test_reload_cuts_what_was_written_and_never_committed(disk: CrashingDisk) -> None:
    log = several_segments(disk)
    log.sync()
    fill(log, 5)

    log.reload(11)

    assert [offset for offset, _ in contents(log)] == list(range(11))
    log.close()
    assert verify_log_directory(disk, DIRECTORY).problems == ()


def test_reload_before_anything_was_written(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)

    log.reload(0)

    assert log.end_offset == 0
    assert append(log, batch(b"b")) == 0


def test_reload_that_finds_durable_records_gone_gives_up(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 3)
    log.segments[0].file().truncate(BATCH_BYTES)

    with pytest.raises(DiskFailedError):
        log.reload(3)

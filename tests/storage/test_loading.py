import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.loading import LoadReport
from ottla.storage.log import Log, Origin
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import NOTHING_UNSYNCED, Keep, Survival
from tests.storage.batches import (
    DIRECTORY,
    NOW_MS,
    append,
    batch,
    contents,
    fill,
    marker,
    open_log,
    read_file,
    write_file,
)

BATCH_BYTES = len(batch(bytes(100)))
SEGMENT = f"{0:020d}"


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


def stopped(disk: CrashingDisk, batches: int = 10, **config: int) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES, **config)  # type: ignore[arg-type]  # settings are integers here
    fill(log, batches)
    log.close()


# After a clean stop


def test_opening_after_a_stop_reads_little_and_writes_nothing(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=1_000 * BATCH_BYTES)
    fill(log, 5_000)
    log.close()
    counters = disk.counters
    reads, read_bytes, writes = counters.reads, counters.bytes_read, counters.writes

    log = open_log(disk)

    assert log.end_offset == log.durable_offset == log.recovery_point == 5_000
    assert counters.reads - reads <= 4
    assert counters.bytes_read - read_bytes < 10_000
    assert counters.writes == writes
    assert log.report == LoadReport()


def test_a_directory_that_is_not_there_is_an_empty_log(disk: CrashingDisk) -> None:
    log = open_log(disk, start_offset=7)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (7, 7, 0)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("base", [0, 9])
def test_a_lost_index_is_built_anew(disk: CrashingDisk, suffix: str, base: int) -> None:
    stopped(disk, index_interval_bytes=0)
    name = f"{base:020d}.{suffix}"
    before = read_file(disk, name)
    disk.remove(f"{DIRECTORY}/{name}")

    log = open_log(disk, index_interval_bytes=0)

    assert log.report.indexes_rebuilt == 1
    assert name.partition(".")[0] in log.report.problems[0]
    assert read_file(disk, name) == before


def test_leftovers_and_orphans_are_removed(disk: CrashingDisk) -> None:
    stopped(disk)
    leftovers = {f"{0:020d}.log.deleted", f"{77:020d}.index", f"{77:020d}.txnindex", "leader-epoch-checkpoint.tmp"}
    for name in leftovers:
        write_file(disk, name, b"x")

    open_log(disk)

    assert not leftovers & set(disk.list(DIRECTORY))


def test_index_entries_of_batches_that_never_came_are_forgotten(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    fill(log, 3)
    for _ in range(3):
        log.append_as_leader(batch(bytes(100), timestamp_ms=NOW_MS + 50), leader_epoch=5, now_ms=NOW_MS)
    log.sync()

    log = open_log(disk.crash(NOTHING_UNSYNCED), index_interval_bytes=0)

    assert log.end_offset == 3
    assert len(log.segments[0].offsets) == 2
    assert log.segments[0].largest_timestamp.timestamp_ms == NOW_MS + 2
    assert log.leader_epochs.entries() == [(0, 0)]


def test_a_torn_tail_is_cut_even_if_the_stop_is_said_to_have_been_clean(disk: CrashingDisk) -> None:
    stopped(disk)
    write_file(disk, f"{9:020d}.log", read_file(disk, f"{9:020d}.log") + b"torn")

    log = open_log(disk)

    assert log.end_offset == 10
    assert log.report.bytes_cut == 4


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_leader_epochs_that_can_not_be_read_are_taken_from_the_batches(disk: CrashingDisk, data: bytes) -> None:
    log = open_log(disk)
    append(log, batch(b"a"), leader_epoch=2)
    append(log, batch(b"b"), leader_epoch=5)
    log.close()
    write_file(disk, "leader-epoch-checkpoint", data)

    assert open_log(disk).leader_epochs.entries() == [(2, 0), (5, 1)]


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_a_scan(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    log.roll(NOW_MS)
    append(log, batch(b"b", producer_id=7, epoch=0, sequence=1))
    log.close()
    write_file(disk, f"{2:020d}.snapshot", b"nonsense")

    log = open_log(disk)

    assert [producer.last_sequence for producer in log.producers.active()] == [1]
    assert log.snapshots.offsets == [1]


# After a crash


def test_only_what_lies_beyond_the_recovery_point_is_checked(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 7)
    log.sync()
    fill(log, 3)

    log = open_log(disk, clean=False, recovery_point=7)

    assert log.report.batches_checked == 3
    assert log.end_offset == 10
    assert log.recovery_point == log.durable_offset == 7


@pytest.mark.parametrize("torn", range(1, BATCH_BYTES, 17))
def test_a_torn_tail_is_cut_at_the_last_whole_batch(disk: CrashingDisk, torn: int) -> None:
    log = open_log(disk)
    fill(log, 3)
    log.segments[0].file().pwritev((batch(bytes(100))[:torn],), 3 * BATCH_BYTES)

    log = open_log(disk, clean=False)

    assert log.end_offset == 3
    assert log.report.bytes_cut == torn
    assert log.report.batches_checked == 3
    assert len(log.report.problems) == 1
    fill(log, 2)
    assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3, 4]


def test_a_flipped_bit_beyond_the_recovery_point_ends_the_log_there(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 8)
    disk.flip_bit(f"{DIRECTORY}/{3:020d}.log", 8 * (BATCH_BYTES + 80))

    log = open_log(disk, clean=False)

    assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3]
    assert log.report.segments_removed == 1
    assert log.report.bytes_cut == 4 * BATCH_BYTES
    assert "checksum" in log.report.problems[0]


def test_a_flipped_bit_below_the_recovery_point_does_not_cost_the_rest(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 8)
    log.sync()
    disk.flip_bit(f"{DIRECTORY}/{3:020d}.log", 8 * (BATCH_BYTES + 80))

    log = open_log(disk, clean=False, recovery_point=8)

    assert log.end_offset == 8
    problems = verify_log_directory(disk, DIRECTORY).problems
    assert [problem.position for problem in problems] == [BATCH_BYTES]


def test_a_segment_whose_name_was_lost_ends_the_log(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 9)
    disk.remove(f"{DIRECTORY}/{3:020d}.log")

    log = open_log(disk, clean=False)

    assert log.end_offset == 3
    assert log.report.segments_removed == 1


def test_synced_records_that_are_gone_are_reported(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 5)
    log.sync()
    log.segments[0].file().truncate(2 * BATCH_BYTES)

    log = open_log(disk, clean=False, recovery_point=5)

    assert log.end_offset == 2
    assert "offsets 2 to 4 were synced and are gone" in log.report.problems[-1]


def test_damaged_indexes_are_built_anew(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    fill(log, 5)
    log.sync()
    write_file(disk, f"{SEGMENT}.index", bytes.fromhex("0000000100000007"))

    log = open_log(disk, clean=False, recovery_point=5, index_interval_bytes=0)

    assert log.report.indexes_rebuilt == 1
    assert len(log.segments[0].offsets) == 4
    assert [offset for offset, _ in contents(log)] == [0, 1, 2, 3, 4]


def test_epochs_beyond_the_recovery_point_come_from_the_batches(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a"), leader_epoch=1)
    log.sync()
    append(log, batch(b"b"), leader_epoch=4)

    log = open_log(disk, clean=False, recovery_point=1)

    assert log.leader_epochs.entries() == [(1, 0), (4, 1)]


def test_a_snapshot_beyond_the_end_is_removed_for_good(disk: CrashingDisk) -> None:
    log = open_log(disk)
    append(log, batch(b"a", producer_id=7, epoch=0, sequence=0))
    log.sync()
    append(log, batch(b"b", producer_id=7, epoch=0, sequence=1))
    log.roll(NOW_MS)
    log.segments[0].file().truncate(len(batch(b"a")))

    log = open_log(disk, clean=False, recovery_point=1)

    assert log.snapshots.offsets == []
    assert not disk.crash(NOTHING_UNSYNCED).exists(f"{DIRECTORY}/{2:020d}.snapshot")
    assert append(log, batch(b"b2", producer_id=7, epoch=0, sequence=1)) == 1


# A crash anywhere


def write_some(log: Log, choice: random.Random) -> None:
    """A producer, a transaction now and then, other epochs, rolls by size."""
    sequence: dict[int, int] = {}
    in_transaction: set[int] = set()
    for number in range(choice.randrange(5, 60)):
        producer_id = choice.choice([-1, -1, 7, 8])
        epoch = number // 20
        if producer_id in in_transaction and choice.random() < 0.3:
            data = marker(commits=choice.random() < 0.5, producer_id=producer_id)
            log.append_as_leader(data, leader_epoch=epoch, now_ms=NOW_MS, origin=Origin.COORDINATOR)
            in_transaction.discard(producer_id)
        else:
            count = choice.randrange(1, 4)
            first = sequence.get(producer_id, 0)
            values = [bytes(choice.randrange(200)) for _ in range(count)]
            transactional = producer_id == 8
            log.append_as_leader(
                batch(
                    *values,
                    timestamp_ms=NOW_MS + choice.randrange(1000),
                    producer_id=producer_id,
                    epoch=0 if producer_id >= 0 else -1,
                    sequence=first if producer_id >= 0 else -1,
                    transactional=transactional,
                ),
                leader_epoch=epoch,
                now_ms=NOW_MS,
            )
            sequence[producer_id] = first + count
            if transactional:
                in_transaction.add(producer_id)
        if choice.random() < 0.5:
            log.write_pending()
        if choice.random() < 0.1:
            log.sync()


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), data=st.sampled_from(Keep), names=st.sampled_from(Keep))
def test_after_any_crash_the_log_is_a_sound_beginning_of_what_was_written(seed: int, data: Keep, names: Keep) -> None:
    choice = random.Random(seed)
    disk = CrashingDisk(seed=seed)
    config = {"segment_bytes": choice.choice([900, 2_000, 10**6]), "index_interval_bytes": choice.choice([0, 300])}
    log = open_log(disk, **config)  # type: ignore[arg-type]  # settings are integers here
    write_some(log, choice)
    log.write_pending()
    held, epochs, point = contents(log), log.leader_epochs.entries(), log.recovery_point
    whole = log.end_offset

    disk = disk.crash(Survival(data=data, names=names))
    log = open_log(disk, clean=False, recovery_point=point, **config)

    if log.start_offset > 0:
        assert point == 0  # the first segment was never synced, and its name is gone: the journal has what was in it
        return
    assert log.end_offset >= point
    found = contents(log)
    assert found == held[: len(found)]
    assert len(found) == len([offset for offset, _ in held if offset < log.end_offset])
    assert log.leader_epochs.entries() == [entry for entry in epochs if entry[1] < log.end_offset]
    append(log, batch(b"x"), batch(b"y"), batch(b"z"), leader_epoch=99)
    log.close()
    assert verify_log_directory(disk, DIRECTORY).problems == ()
    assert open_log(disk).end_offset == log.end_offset
    if log.end_offset - 3 == whole:
        assert contents(open_log(disk))[: len(held)] == held


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_crash_right_after_a_sync_loses_nothing_and_finds_the_same_producers(seed: int) -> None:
    choice = random.Random(seed)
    disk = CrashingDisk(seed=seed)
    log = open_log(disk, segment_bytes=2_000)
    write_some(log, choice)
    log.write_pending()
    log.sync()
    held, producers = contents(log), sorted(log.producers.snapshot())
    aborted, stable = log.aborted_transactions(0, log.end_offset), log.last_stable_offset

    clean = choice.random() < 0.5  # a log that was synced as a whole is opened as after a clean stop
    log = open_log(disk.crash(), clean=clean, recovery_point=log.recovery_point, segment_bytes=2_000)

    assert contents(log) == held
    assert sorted(log.producers.snapshot()) == producers
    assert log.aborted_transactions(0, log.end_offset) == aborted
    assert log.last_stable_offset == stable

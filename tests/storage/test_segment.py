import errno

import pytest

from ottla.config import LogConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.storage.offset_index import OffsetEntry
from ottla.storage.segment import Segment
from ottla.storage.time_index import TimeEntry
from ottla.testing.disk import CrashingDisk, Fault, Operation
from tests.storage.batches import DIRECTORY, NOW_MS, append, batch, contents, fill, open_log, read_file

BATCH_BYTES = len(batch(bytes(100)))


@pytest.fixture
def disk() -> CrashingDisk:
    return CrashingDisk()


def reopened(disk: CrashingDisk, base_offset: int = 0) -> Segment:
    return Segment.at_rest(disk, DIRECTORY, base_offset, created_ms=NOW_MS)


# Indexing


def test_an_index_entry_is_made_when_more_than_the_interval_lies_behind_the_last(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=2 * BATCH_BYTES)
    fill(log, 10)
    log.close()

    index = reopened(disk).offsets
    assert len(index) == 3
    assert index.last() == OffsetEntry(9, 9 * BATCH_BYTES)
    assert [index.lookup(offset) for offset in (2, 3, 5, 6)] == [0, 3 * BATCH_BYTES, 3 * BATCH_BYTES, 6 * BATCH_BYTES]


def test_a_closed_segments_time_index_ends_with_its_largest_timestamp(disk: CrashingDisk) -> None:
    log = open_log(disk)
    for timestamp_ms in (10, 30, 20):
        append(log, batch(b"x", timestamp_ms=timestamp_ms))
    log.roll(NOW_MS)

    assert log.segments[0].times.last == TimeEntry(30, 1)
    assert log.segments[0].largest_timestamp == TimeEntry(30, 1)


def test_index_entries_gather_in_memory_until_the_segment_closes(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    fill(log, 20)
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.index")

    log.roll(NOW_MS)

    assert len(read_file(disk, f"{0:020d}.index")) == 19 * 8


def test_many_index_entries_are_written_before_that(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    for _ in range(600):
        log.append_as_leader(batch(b"x"), leader_epoch=0, now_ms=NOW_MS)

    log.write_pending()

    assert len(read_file(disk, f"{0:020d}.index")) == 599 * 8


def test_an_index_for_which_there_is_no_room_waits(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    fault = Fault(operation=Operation.CREATE, path_contains=".index", errno=errno.ENOSPC)
    disk.faults.append(fault)
    fill(log, 600)
    assert [offset for offset, _ in contents(log)] == list(range(600))
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.index")

    disk.faults.remove(fault)
    fill(log, 1)

    assert len(read_file(disk, f"{0:020d}.index")) == 600 * 8


# Finding


@pytest.mark.parametrize("interval_bytes", [0, 300, 4096, 10**9])
def test_every_offset_leads_to_its_batch(disk: CrashingDisk, interval_bytes: int) -> None:
    log = open_log(disk, index_interval_bytes=interval_bytes)
    sizes = [10, 5000, 1, 20_000, 300, 70_000, 2] * 5
    for size in sizes:
        append(log, batch(bytes(size), b"second"))
    segment = log.segments[0]

    positions = [segment.locate(offset, segment.written) for offset in range(2 * len(sizes))]

    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + len(batch(bytes(size), b"second")))
    assert positions == [start for start in starts[:-1] for _ in range(2)]
    assert segment.locate(2 * len(sizes), segment.written) is None


def test_a_walk_that_meets_no_batch_says_so(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 5)
    log.segments[0].file().pwritev((b"\xff" * 20,), 2 * BATCH_BYTES)

    with pytest.raises(BrokerError) as refused:
        log.segments[0].locate(4, 5 * BATCH_BYTES)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


# Rolling


def test_a_segment_that_would_outgrow_its_size_is_closed(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_bytes=3 * BATCH_BYTES)
    fill(log, 7)

    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [segment.size_bytes for segment in log.segments] == [3 * BATCH_BYTES, 3 * BATCH_BYTES, BATCH_BYTES]


def test_a_segment_is_closed_by_the_time_of_its_records_not_by_the_clock(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_ms=1_000)
    append(log, batch(b"first", timestamp_ms=NOW_MS))
    append(log, batch(b"a day later by the clock", timestamp_ms=NOW_MS + 1_000), now_ms=NOW_MS + 86_400_000)
    assert len(log.segments) == 1

    append(log, batch(b"too young", timestamp_ms=NOW_MS + 1_001))

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_timestamps_age_by_the_clock(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_ms=1_000)
    append(log, batch(b"first", timestamp_ms=-1))
    append(log, batch(b"second", timestamp_ms=-1), now_ms=NOW_MS + 1_000)
    assert len(log.segments) == 1

    append(log, batch(b"third", timestamp_ms=-1), now_ms=NOW_MS + 1_001)

    assert len(log.segments) == 2


def test_the_first_timestamp_is_known_again_after_a_restart(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_ms=1_000)
    append(log, batch(b"first", timestamp_ms=NOW_MS))
    log.close()

    log = open_log(disk, segment_ms=1_000)
    append(log, batch(b"second", timestamp_ms=NOW_MS + 1_001))

    assert len(log.segments) == 2


def test_jitter_closes_a_segment_earlier_and_is_the_same_after_a_restart(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_ms=100_000, segment_jitter_ms=50_000)
    append(log, batch(b"first"))
    first = log.segments[0].roll_timestamp_ms
    log.close()
    log = open_log(disk, segment_ms=100_000, segment_jitter_ms=50_000)
    append(log, batch(b"second"))

    assert NOW_MS + 50_000 < first < NOW_MS + 100_000
    assert log.segments[0].roll_timestamp_ms == first


def test_a_full_index_closes_the_segment(disk: CrashingDisk) -> None:
    log = open_log(disk, segment_index_bytes=48, index_interval_bytes=0)
    fill(log, 10)

    # The time index holds four entries of which one is kept for the end, so three batches after the first have one.
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]
    assert contents(log) == [(offset, bytes(100)) for offset in range(10)]


def test_an_offset_too_far_from_the_base_closes_the_segment(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_follower(batch(b"a", base_offset=5))
    log.append_as_follower(batch(b"b", base_offset=2**31 - 1))
    log.append_as_follower(batch(b"c", base_offset=2**31))
    log.write_pending()

    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert contents(log) == [(5, b"a"), (2**31 - 1, b"b"), (2**31, b"c")]


def test_an_empty_segment_is_replaced_by_one_that_can_hold_the_offset(disk: CrashingDisk) -> None:
    log = open_log(disk)
    log.append_as_follower(batch(b"a", base_offset=2**40))
    log.write_pending()

    assert [segment.base_offset for segment in log.segments] == [2**40]
    assert contents(log) == [(2**40, b"a")]


def test_new_settings_are_used_for_the_segment_that_is_open(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 3)

    log.config = LogConfig(segment_bytes=3 * BATCH_BYTES)
    fill(log, 1)

    assert [segment.base_offset for segment in log.segments] == [0, 3]


# Cutting


def test_after_a_cut_the_largest_timestamp_is_that_of_what_is_left(disk: CrashingDisk) -> None:
    log = open_log(disk, index_interval_bytes=0)
    for timestamp_ms in (10, 50, 20, 70):
        append(log, batch(b"x", timestamp_ms=timestamp_ms))

    log.truncate_to(3)
    assert log.segments[0].largest_timestamp == TimeEntry(50, 1)
    log.truncate_to(1)
    assert log.segments[0].largest_timestamp == TimeEntry(10, 0)


def test_a_segment_at_rest_loads_nothing(disk: CrashingDisk) -> None:
    log = open_log(disk)
    fill(log, 3)
    log.close()
    reads = disk.counters.reads

    reopened(disk)

    assert disk.counters.reads == reads

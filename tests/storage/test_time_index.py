import struct

import pytest

from ottla.storage.time_index import NO_TIMESTAMP, TimeEntry, TimeIndex, read_entries
from ottla.testing.disk import CrashingDisk


def index_of(*entries: tuple[int, int], disk: CrashingDisk | None = None) -> TimeIndex:
    index = TimeIndex(disk or CrashingDisk(), "i", 100)
    for timestamp_ms, offset in entries:
        index.append(timestamp_ms, offset)
    return index


def test_an_entry_is_a_time_and_a_relative_offset() -> None:
    disk = CrashingDisk()
    index_of((1_700_000_000_000, 105), disk=disk).flush()

    data = disk.open("i").pread(99, 0)

    assert data == struct.pack(">qi", 1_700_000_000_000, 5)
    assert list(read_entries(data, 100)) == [TimeEntry(1_700_000_000_000, 105)]


def test_only_a_larger_time_makes_an_entry() -> None:
    index = index_of((50, 101), (50, 102), (40, 103), (60, 104))

    assert len(index) == 2
    assert index.last == TimeEntry(60, 104)


def test_an_empty_index_says_that_no_time_is_known_from_the_base_on() -> None:
    assert index_of().last == TimeEntry(NO_TIMESTAMP, 100)


@pytest.mark.parametrize("flushed", [0, 1, 2, 3])
@pytest.mark.parametrize(("timestamp_ms", "offset"), [(5, 100), (10, 101), (15, 101), (20, 105), (29, 105), (99, 108)])
def test_lookup_finds_where_a_search_may_start(flushed: int, timestamp_ms: int, offset: int) -> None:
    index = TimeIndex(CrashingDisk(), "i", 100)
    for number, entry in enumerate([(10, 101), (20, 105), (30, 108)]):
        if number == flushed:
            index.flush()
        index.append(*entry)

    assert index.lookup(timestamp_ms) == offset


@pytest.mark.parametrize("flushed", [0, 1, 2, 3])
@pytest.mark.parametrize(("offset", "entry"), [(101, (-1, 100)), (102, (10, 101)), (105, (10, 101)), (999, (30, 108))])
def test_the_last_entry_before_an_offset(flushed: int, offset: int, entry: tuple[int, int]) -> None:
    index = TimeIndex(CrashingDisk(), "i", 100)
    for number, one in enumerate([(10, 101), (20, 105), (30, 108)]):
        if number == flushed:
            index.flush()
        index.append(*one)

    assert index.last_before(offset) == entry


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize(("offset", "last"), [(100, (-1, 100)), (105, (10, 101)), (106, (20, 105)), (999, (30, 108))])
def test_truncation_forgets_what_was_noted_at_the_offset_or_later(
    flushed: bool, offset: int, last: tuple[int, int]
) -> None:
    index = index_of((10, 101), (20, 105), (30, 108))
    if flushed:
        index.flush()

    index.truncate_to(offset)

    assert index.last == last
    index.append(40, 2000)
    assert index.lookup(40) == 2000


def test_the_last_entry_is_known_after_a_restart() -> None:
    disk = CrashingDisk()
    index_of((10, 101), (20, 105), disk=disk).flush()

    assert TimeIndex(disk, "i", 100).last == TimeEntry(20, 105)


def test_entries_out_of_order_are_dropped_after_a_crash() -> None:
    disk = CrashingDisk()
    disk.open("i", create=True).pwritev((struct.pack(">qiqiqi", 10, 1, 20, 2, 0, 0),), 0)
    index = TimeIndex(disk, "i", 100)

    index.keep_ordered()

    assert len(index) == 2
    assert index.last == TimeEntry(20, 102)

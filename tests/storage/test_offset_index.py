import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvariantError
from ottla.storage.offset_index import PAGE_ENTRIES, OffsetEntry, OffsetIndex, read_entries
from ottla.testing.disk import CrashingDisk


def index_of(*entries: tuple[int, int], base: int = 100, disk: CrashingDisk | None = None) -> OffsetIndex:
    index = OffsetIndex(disk or CrashingDisk(), "i", base)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_an_entry_is_two_big_endian_integers_relative_to_the_base() -> None:
    disk = CrashingDisk()
    index_of((105, 4200), (2**31 + 99, 2**31 - 1), disk=disk).flush()

    data = disk.open("i").pread(99, 0)

    assert data == struct.pack(">iiii", 5, 4200, 2**31 - 1, 2**31 - 1)
    assert list(read_entries(data, 100)) == [OffsetEntry(105, 4200), OffsetEntry(2**31 + 99, 2**31 - 1)]


def test_nothing_is_written_before_it_is_flushed() -> None:
    disk = CrashingDisk()
    index_of((105, 4200), disk=disk)

    assert not disk.exists("i")


def test_the_backlog_is_what_is_not_written() -> None:
    index = index_of((105, 10), (110, 20))
    assert (len(index), index.backlog) == (2, 2)

    index.flush()

    assert (len(index), index.backlog) == (2, 0)


def test_an_offset_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvariantError):
        index_of((2**31 + 100, 1))


@given(
    gaps=st.lists(st.integers(1, 50), max_size=40),
    flushed=st.integers(0, 40),
    wanted=st.lists(st.integers(90, 2_000), max_size=20),
)
def test_lookup_finds_the_last_entry_that_is_not_after_the_offset(
    gaps: list[int], flushed: int, wanted: list[int]
) -> None:
    offsets = [100 + sum(gaps[: n + 1]) for n in range(len(gaps))]
    index = OffsetIndex(CrashingDisk(), "i", 100)
    for n, offset in enumerate(offsets):
        index.append(offset, 1000 + n)
        if n == flushed:
            index.flush()

    for offset in wanted:
        at = bisect_right(offsets, offset)
        assert index.lookup(offset) == (1000 + at - 1 if at else 0)


def test_lookup_over_many_pages_after_a_restart() -> None:
    disk = CrashingDisk()
    count = 3 * PAGE_ENTRIES + 7
    index_of(*((101 + 2 * n, 10 * n + 10) for n in range(count)), disk=disk).flush()

    index = OffsetIndex(disk, "i", 100)

    for n in (0, 1, 511, 512, 513, 1024, count - 1):
        assert index.lookup(101 + 2 * n) == index.lookup(102 + 2 * n) == 10 * n + 10
    assert index.lookup(100) == 0
    assert index.last() == OffsetEntry(101 + 2 * (count - 1), 10 * count)


def test_a_reader_that_goes_on_reads_a_page_once() -> None:
    disk = CrashingDisk()
    index_of(*((101 + n, 10 + n) for n in range(4 * PAGE_ENTRIES)), disk=disk).flush()
    index = OffsetIndex(disk, "i", 100)
    index.lookup(1200)
    reads = disk.counters.reads

    for offset in range(1201, 1400):
        index.lookup(offset)

    assert disk.counters.reads == reads


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize(("offset", "left"), [(100, 0), (105, 0), (106, 1), (110, 1), (111, 2), (999, 3)])
def test_truncation_forgets_batches_that_end_at_the_offset_or_later(flushed: bool, offset: int, left: int) -> None:
    index = index_of((105, 10), (110, 20), (120, 30))
    if flushed:
        index.flush()

    index.truncate_to(offset)

    assert len(index) == left
    index.append(1000, 9000)
    assert index.lookup(1000) == 9000


def test_entries_of_batches_that_never_came_are_forgotten() -> None:
    disk = CrashingDisk()
    index_of((105, 10), (110, 20), (120, 30), disk=disk).flush()
    index = OffsetIndex(disk, "i", 100)

    index.truncate_beyond(20)

    assert index.last() == OffsetEntry(105, 10)


def test_zeros_that_a_crash_left_are_dropped() -> None:
    disk = CrashingDisk()
    disk.open("i", create=True).pwritev((struct.pack(">6i", 5, 10, 9, 20, 0, 0), bytes(40)), 0)
    index = OffsetIndex(disk, "i", 100)

    index.keep_ordered()

    assert len(index) == 2
    assert index.last() == OffsetEntry(109, 20)


@given(
    gaps=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5_000)), min_size=1, max_size=3 * PAGE_ENTRIES),
    written=st.floats(0, 1),
    at=st.floats(0, 1),
    size_bytes=st.integers(1, 3_000_000),
)
def test_what_lies_beyond_a_read_is_the_next_batch_that_the_index_knows(
    gaps: list[tuple[int, int]], written: float, at: float, size_bytes: int
) -> None:
    entries, offset, position = [], 100, 0
    for offsets, size in gaps:
        offset, position = offset + offsets, position + size
        entries.append((offset, position))
    index = index_of(*entries[: int(written * len(entries))])
    index.flush()
    for entry in entries[int(written * len(entries)) :]:
        index.append(*entry)
    wanted = 100 + int(at * (offset - 100))

    starts_before = next((position for offset, position in entries if offset > wanted), None)
    expected = None
    if starts_before is not None:
        expected = next((offset for offset, position in entries if position >= starts_before + size_bytes), None)
    assert index.beyond(wanted, size_bytes) == expected

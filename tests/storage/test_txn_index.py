import struct

from ottla.storage.txn_index import AbortedTransaction, TxnIndex
from ottla.testing.disk import CrashingDisk


def aborted(first: int, last: int, stable: int, producer_id: int = 7) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable)


def index_of(*entries: AbortedTransaction, disk: CrashingDisk | None = None) -> TxnIndex:
    index = TxnIndex(disk or CrashingDisk(), "i")
    for entry in entries:
        index.append(entry)
    return index


def test_an_entry_has_a_version_and_four_numbers() -> None:
    disk = CrashingDisk()
    index_of(aborted(10, 15, 12), disk=disk).flush()

    assert disk.open("i").pread(99, 0) == struct.pack(">hqqqq", 0, 7, 10, 15, 12)
    assert TxnIndex(disk, "i").aborted == [aborted(10, 15, 12)]


def test_without_aborts_there_is_no_file() -> None:
    disk = CrashingDisk()
    index_of(disk=disk).flush()

    assert not disk.exists("i")


def test_a_search_finds_the_transactions_with_records_in_the_range() -> None:
    index = index_of(aborted(0, 5, 3), aborted(3, 9, 10), aborted(20, 25, 26))

    assert index.collect(6, 20) == ([aborted(3, 9, 10)], True)
    assert index.collect(0, 21) == ([aborted(0, 5, 3), aborted(3, 9, 10), aborted(20, 25, 26)], True)


def test_a_search_is_complete_when_nothing_undecided_is_left_in_the_range() -> None:
    index = index_of(aborted(0, 5, 3))

    assert index.collect(0, 3) == ([aborted(0, 5, 3)], True)
    assert index.collect(0, 4) == ([aborted(0, 5, 3)], False)


def test_truncation_forgets_markers_from_the_offset_on() -> None:
    disk = CrashingDisk()
    index = index_of(aborted(0, 5, 6), aborted(7, 9, 10), disk=disk)
    index.flush()

    index.truncate_to(9)
    index.append(aborted(8, 12, 13))
    index.flush()

    assert TxnIndex(disk, "i").aborted == [aborted(0, 5, 6), aborted(8, 12, 13)]


def test_after_a_crash_the_end_is_dropped_as_far_as_the_log_does_not_say_the_same() -> None:
    disk = CrashingDisk()
    index = index_of(*(aborted(10 * number, 10 * number + 5, 10 * number + 6) for number in range(4)), disk=disk)
    index.flush()

    index.keep_backed(lambda entry: entry.last_offset <= 15)

    assert [entry.last_offset for entry in index.aborted] == [5, 15]
    assert [entry.last_offset for entry in TxnIndex(disk, "i").aborted] == [5, 15]


def test_a_name_is_new_once_and_only_when_there_is_a_file() -> None:
    index = index_of()
    assert not index.take_new_name()
    index.append(aborted(0, 5, 6))
    index.flush()

    assert [index.take_new_name(), index.take_new_name()] == [True, False]

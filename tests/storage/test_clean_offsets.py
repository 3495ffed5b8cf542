"""How far logs are compacted is written down in Kafka's format, and again until it works."""

import pytest

from ottla.errors import CorruptLogError
from ottla.storage.clean_offsets import CLEAN_OFFSETS, CleanOffsets
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.types import TopicPartition

A = TopicPartition("a", 0)


def test_what_is_written_is_read_again() -> None:
    disk = CrashingDisk(seed=1)
    known = CleanOffsets.read(disk)
    known.note(A, 7)
    for file in known.files(disk):
        file.sync()

    assert disk.open(CLEAN_OFFSETS).pread(100, 0) == b"0\n1\na 0 7\n"
    again = CleanOffsets.read(disk.crash())
    assert again.of(A) == 7
    assert again.files(disk) == []
    again.note(A, 0)
    assert again.of(A) == 0
    assert len(again.files(disk)) == 1


def test_a_file_that_could_not_be_written_is_written_the_next_time() -> None:
    disk = CrashingDisk(seed=1)
    known = CleanOffsets()
    known.note(A, 7)
    disk.faults.append(Fault(operation=Operation.SYNC, times=1))
    with pytest.raises(OSError, match="Input/output"):
        known.files(disk)[0].sync()

    known.files(disk)[0].sync()

    assert CleanOffsets.read(disk).of(A) == 7
    assert known.files(disk) == []


def test_a_file_of_something_else_is_refused() -> None:
    disk = CrashingDisk(seed=1)
    disk.open(CLEAN_OFFSETS, create=True).pwritev([b"what?"], 0)

    with pytest.raises(CorruptLogError):
        CleanOffsets.read(disk)

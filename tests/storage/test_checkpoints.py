import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptLogError
from ottla.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_OFFSETS,
    NOTHING_KNOWN,
    RECOVERY_POINTS,
    CleanShutdown,
    KnownOffsets,
    LogOffsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_kafka_offsets,
)
from ottla.storage.journal import Resume
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import NOTHING_UNSYNCED
from ottla.types import TopicPartition

Key = tuple[bytes, int]

keys = st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 9999))
offsets = st.integers(0, 2**63 - 1)


def write(disk: CrashingDisk, path: str, content: bytes) -> None:
    disk.open(path, create=True).pwritev([content], 0)


def known(offsets: dict[Key, LogOffsets]) -> KnownOffsets:
    made = KnownOffsets()
    for (topic_id, partition), one in offsets.items():
        made.note(topic_id, partition, one)
    return made


@given(st.dictionaries(keys, st.builds(LogOffsets, offsets, offsets)))
def test_offsets_come_back_as_they_were_written(wanted: dict[Key, LogOffsets]) -> None:
    disk = CrashingDisk()
    known(wanted).file(disk).sync()

    found = KnownOffsets.read(disk.crash(NOTHING_UNSYNCED))

    assert {key: found.of(*key) for key in wanted} == wanted


def test_a_log_of_which_nothing_is_known_has_no_line() -> None:
    disk = CrashingDisk()
    made = known({(bytes(16), 0): LogOffsets(1, 0), (bytes(16), 1): LogOffsets(2, 1), (bytes(16), 2): LogOffsets(3, 0)})
    made.note(bytes(16), 0, NOTHING_KNOWN)
    made.forget(bytes(16), 1)
    made.file(disk).sync()

    assert made.of(bytes(16), 0) == made.of(bytes(16), 1) == NOTHING_KNOWN
    assert disk.open(LOG_OFFSETS).pread(100, 0) == b"0\n1\nAAAAAAAAAAAAAAAAAAAAAA 2 3 0\n"


def test_a_file_is_what_it_was_when_it_was_made_not_when_it_is_written() -> None:
    disk = CrashingDisk()
    made = known({(bytes(16), 0): LogOffsets(1, 0)})
    file = made.file(disk)
    made.note(bytes(16), 0, LogOffsets(2, 0))
    file.sync()

    assert KnownOffsets.read(disk).of(bytes(16), 0) == LogOffsets(1, 0)


def test_kafkas_own_files_are_in_kafkas_format() -> None:
    disk = CrashingDisk()
    write_kafka_offsets(disk, RECOVERY_POINTS, {TopicPartition("orders", 3): 17})

    assert disk.open(RECOVERY_POINTS).pread(100, 0) == b"0\n1\norders 3 17\n"


def test_a_missing_file_holds_nothing() -> None:
    assert KnownOffsets.read(CrashingDisk()).of(bytes(16), 0) == NOTHING_KNOWN


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"1\n0\n", b"0\n2\nAA 0 1 0\n", b"0\n1\nAA 0\n", b"0\n1\nAA 0 x 1\n", b"\xff\xfe"]
)
def test_anything_else_is_told_from_a_checkpoint(content: bytes) -> None:
    disk = CrashingDisk()
    write(disk, LOG_OFFSETS, content)

    with pytest.raises(CorruptLogError, match=LOG_OFFSETS):
        KnownOffsets.read(disk)


def test_a_crash_while_writing_leaves_the_old_offsets_or_the_new() -> None:
    old, new = LogOffsets(1, 0), LogOffsets(2, 1)
    disk = CrashingDisk(seed=3)
    known({(bytes(16), 0): old}).file(disk).sync()
    found: set[LogOffsets] = set()
    disk.before_operation = lambda operation, path: found.update(
        KnownOffsets.read(disk.crash()).of(bytes(16), 0) for _ in range(20)
    )
    known({(bytes(16), 0): new}).file(disk).sync()

    assert found == {old, new}


SHUTDOWN = CleanShutdown(
    journal=Resume(file_number=3, position=512, next_sequence=42), unchecked=frozenset({"a-0", "b-1"}), broker_epoch=9
)


def test_the_clean_shutdown_marker_is_taken_once_and_for_good() -> None:
    disk = CrashingDisk()
    write_clean_shutdown(disk, SHUTDOWN)
    disk = disk.crash(NOTHING_UNSYNCED)

    assert take_clean_shutdown(disk) == SHUTDOWN
    assert take_clean_shutdown(disk.crash(NOTHING_UNSYNCED)) is None


def test_the_marker_is_one_that_kafka_understands() -> None:
    disk = CrashingDisk()
    write_clean_shutdown(disk, SHUTDOWN)

    content = json.loads(disk.open(CLEAN_SHUTDOWN).pread(1000, 0))
    assert content["version"] == 0
    assert content["brokerEpoch"] == 9


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":0,"brokerEpoch":1}', b'{"journal":1}'])
def test_a_marker_of_another_kind_does_not_make_the_stop_clean(content: bytes) -> None:
    disk = CrashingDisk()
    write(disk, CLEAN_SHUTDOWN, content)

    assert take_clean_shutdown(disk) is None
    assert not disk.exists(CLEAN_SHUTDOWN)

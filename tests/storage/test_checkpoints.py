import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptLogError
from ottla.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    RECOVERY_POINTS,
    CleanShutdown,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from ottla.storage.journal import Resume
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import NOTHING_UNSYNCED
from ottla.types import TopicPartition

partitions = st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 9999))


def write(disk: CrashingDisk, path: str, content: bytes) -> None:
    disk.open(path, create=True).pwritev([content], 0)


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1)))
def test_offsets_come_back_as_they_were_written(offsets: dict[TopicPartition, int]) -> None:
    disk = CrashingDisk()
    write_offsets(disk, RECOVERY_POINTS, offsets)

    assert read_offsets(disk.crash(NOTHING_UNSYNCED), RECOVERY_POINTS) == offsets


def test_the_format_is_kafkas() -> None:
    disk = CrashingDisk()
    write_offsets(disk, RECOVERY_POINTS, {TopicPartition("orders", 3): 17})

    assert disk.open(RECOVERY_POINTS).pread(100, 0) == b"0\n1\norders 3 17\n"


def test_a_missing_file_holds_nothing() -> None:
    assert read_offsets(CrashingDisk(), RECOVERY_POINTS) == {}


@pytest.mark.parametrize("content", [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"\xff\xfe"])
def test_anything_else_is_told_from_a_checkpoint(content: bytes) -> None:
    disk = CrashingDisk()
    write(disk, RECOVERY_POINTS, content)

    with pytest.raises(CorruptLogError, match=RECOVERY_POINTS):
        read_offsets(disk, RECOVERY_POINTS)


def test_a_crash_while_writing_leaves_the_old_offsets_or_the_new() -> None:
    old, new = {TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 2, TopicPartition("b", 0): 3}
    disk = CrashingDisk(seed=3)
    write_offsets(disk, RECOVERY_POINTS, old)
    found: list[dict[TopicPartition, int]] = []
    disk.before_operation = lambda operation, path: found.extend(
        read_offsets(disk.crash(), RECOVERY_POINTS) for _ in range(20)
    )
    write_offsets(disk, RECOVERY_POINTS, new)

    assert old in found
    assert new in found
    assert all(offsets in (old, new) for offsets in found)


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

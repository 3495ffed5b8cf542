from random import Random

import pytest

from ottla.storage.directories import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    find_doomed,
    find_logs,
    find_strays,
    first_offset_in,
    partition_of,
    rename_away,
    topic_id_in,
)
from ottla.testing.disk import CrashingDisk
from ottla.types import TopicPartition, topic_id_text


def write(disk: CrashingDisk, path: str, content: bytes) -> None:
    disk.make_directory(path.rpartition("/")[0])
    disk.open(path, create=True).pwritev([content], 0)


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_the_topic_id_is_read_as_kafka_writes_it(ending: bytes) -> None:
    disk = CrashingDisk()
    write(disk, "t-0/partition.metadata", f"version: 0\ntopic_id: {topic_id_text(bytes(range(16)))}".encode() + ending)

    assert topic_id_in(disk, "t-0") == bytes(range(16))


@pytest.mark.parametrize("content", [b"", b"version: 0\n", b"version: 0\ntopic_id: x\n", bytes(43), b"\xff" * 40])
def test_an_unreadable_id_is_none(content: bytes) -> None:
    disk = CrashingDisk()
    write(disk, "t-0/partition.metadata", content)

    assert topic_id_in(disk, "t-0") is None
    assert topic_id_in(disk, "missing-0") is None


def test_a_renamed_directory_keeps_its_name_in_front_and_never_gets_too_long() -> None:
    disk = CrashingDisk()
    for directory in ("short-0", "x" * 247 + "-0"):
        disk.make_directory(directory)
        renamed = rename_away(disk, Random(1), directory, DELETE_SUFFIX)

        assert renamed[:200] == directory[:200] or renamed.startswith(directory)
        assert len(renamed) <= 255
        assert disk.list("") == [renamed]
        disk.remove_tree(renamed)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("my-topic-12", TopicPartition("my-topic", 12)),
        ("journal", None),
        ("-3", None),
        ("t-x", None),
        ("t-0.abc-delete", None),
    ],
)
def test_partitions_are_told_by_their_directories(name: str, partition: TopicPartition | None) -> None:
    assert partition_of(name) == partition


def test_directories_are_sorted_by_what_they_are() -> None:
    disk = CrashingDisk()
    for name in ("a-0", "b-0", "journal", f"c-0.1{DELETE_SUFFIX}", f"d-0.1{STRAY_SUFFIX}"):
        disk.make_directory(name)

    assert find_logs(disk) == ["a-0", "b-0"]
    assert find_doomed(disk) == [f"c-0.1{DELETE_SUFFIX}"]
    assert find_strays(disk, lambda partition: partition.topic == "a") == ["b-0", f"d-0.1{STRAY_SUFFIX}"]


def test_the_first_offset_is_that_of_the_first_segment() -> None:
    disk = CrashingDisk()
    write(disk, "t-0/00000000000000000007.log", b"")
    write(disk, "t-0/00000000000000000012.log", b"")
    write(disk, "t-0/00000000000000000000.snapshot", b"")

    assert first_offset_in(disk, "t-0") == 7
    assert first_offset_in(disk, "u-0") == 0

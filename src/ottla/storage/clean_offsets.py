"""How far each log is compacted: Kafka's `cleaner-offset-checkpoint`.

It goes by name, so a topic that is deleted takes its offset with it, and a log that is recovered is not believed to be
compacted beyond what the journal brings back. An offset that is too low only costs another compaction; one that is too
high would let a deleted key come back once its tombstone is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.checkpoints import offsets_file, read_kafka_offsets

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.storage.pending import Syncable
    from ottla.types import TopicPartition

CLEAN_OFFSETS = "cleaner-offset-checkpoint"


class CleanOffsets:
    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}

    @classmethod
    def read(cls, disk: Disk) -> CleanOffsets:
        """What the file says; nothing if it is missing. CorruptLogError if it is not such a file."""
        known = cls()
        known._offsets = read_kafka_offsets(disk, CLEAN_OFFSETS)
        known._written = dict(known._offsets)
        return known

    def of(self, partition: TopicPartition) -> int:
        return self._offsets.get(partition, 0)

    def note(self, partition: TopicPartition, offset: int) -> None:
        if offset:
            self._offsets[partition] = offset
        else:
            self._offsets.pop(partition, None)

    def files(self, disk: Disk) -> list[Syncable]:
        """The file, if it should say something else than it does."""
        return [] if self._offsets == self._written else [_File(self, disk, dict(self._offsets))]

    def written(self, offsets: dict[TopicPartition, int]) -> None:
        """Any thread."""
        self._written = offsets


class _File:
    """Something to be synced: it is written until that works."""

    __slots__ = ("_disk", "_known", "_offsets")

    def __init__(self, known: CleanOffsets, disk: Disk, offsets: dict[TopicPartition, int]) -> None:
        self._known = known
        self._disk = disk
        self._offsets = offsets

    def sync(self) -> None:
        offsets_file(self._disk, CLEAN_OFFSETS, self._offsets).sync()
        self._disk.sync_directory("")
        self._known.written(self._offsets)

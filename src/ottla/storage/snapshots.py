"""The producer snapshots of one log: which there are, and how the state at an offset is found again.

There is one at the base offset of every segment, so that recovery begins at the segment it scans, and one more at the
last sync or stop, so that it begins closer still.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.storage import names
from ottla.storage.pending import FileSync
from ottla.storage.producer_snapshot import decode_snapshot, encode_snapshot
from ottla.storage.producer_state import ProducerState

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.ports import Disk
    from ottla.storage.pending import Syncable
    from ottla.storage.producer_snapshot import SnapshotEntry


class Snapshots:
    __slots__ = ("_directory", "_disk", "_unsynced", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = offsets
        """Sorted."""
        self._unsynced: list[Syncable] = []

    @property
    def latest(self) -> int:
        return self.offsets[-1] if self.offsets else -1

    def path(self, offset: int) -> str:
        return f"{self._directory}/{names.file_name(offset, names.SNAPSHOT)}"

    def write(self, offset: int, state: ProducerState) -> None:
        """Write the state at `offset`. Not synced; if a crash tears it, its checksum tells."""
        file = self._disk.open(self.path(offset), create=True)
        data = encode_snapshot(state.snapshot())
        file.truncate(0)
        file.pwritev((data,), 0)
        self._unsynced.append(FileSync(file, and_close=True))
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def take_unsynced(self) -> list[Syncable]:
        unsynced, self._unsynced = self._unsynced, []
        return unsynced

    def load(self, upto_offset: int) -> tuple[int, ProducerState] | None:
        """The latest usable one that is not beyond `upto_offset`, and its offset. Unusable ones are removed."""
        while at := bisect_right(self.offsets, upto_offset):
            offset = self.offsets[at - 1]
            entries = self._usable(offset)
            if entries is not None:
                return offset, ProducerState.from_snapshot(entries)
        return None

    def oldest_open(self, offset: int) -> int | None:
        """Where the oldest transaction begins that was open at `offset`, `offset` if none was; None if unknown."""
        if offset not in self.offsets:
            return None
        try:
            entries = decode_snapshot(self._read(offset))
        except (CorruptLogError, OSError):
            return None
        return min((entry.txn_first_offset for entry in entries if entry.txn_first_offset >= 0), default=offset)

    def remove_after(self, offset: int) -> bool:
        """Remove those beyond `offset`. If there were any, the directory must be synced before the log grows past them
        again: one that comes back after a crash would tell of batches that never were."""
        later = [at for at in self.offsets if at > offset]
        self.remove(later)
        return bool(later)

    def remove_superseded(self, bases: Collection[int]) -> None:
        """Keep those of segments, and the latest."""
        self.remove([offset for offset in self.offsets[:-1] if offset not in bases])

    def remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            if offset in self.offsets:
                self.offsets.remove(offset)
                self._disk.remove(self.path(offset))

    def _usable(self, offset: int) -> list[SnapshotEntry] | None:
        """What it says; None if it can't be read, and is not there any more."""
        try:
            return decode_snapshot(self._read(offset))
        except (CorruptLogError, FileNotFoundError):
            self.remove([offset])
            return None

    def _read(self, offset: int) -> bytes:
        file = self._disk.open(self.path(offset))
        data = file.pread(file.size(), 0)
        file.close()
        return data

"""A file of entries that all have the same size: what the offset index and the time index are made of.

The file is made when its first entries are written, and stays closed until somebody looks: an idle partition costs
neither a descriptor nor a buffer. Entries are few (one per `index.interval.bytes` of records), so they gather in the
index above and come here in batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.ports import Disk, File


class IndexFile:
    """`count` entries of `entry_bytes` bytes each. A part of an entry at the end, from a torn write, is not seen."""

    __slots__ = ("_disk", "_file", "_is_torn", "count", "entry_bytes", "is_new", "path", "unsynced")

    def __init__(self, disk: Disk, path: str, entry_bytes: int) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self._disk = disk
        self._file: File | None = None
        self.unsynced = False
        self.is_new = False
        """Whether there was no such file: once it is made, its name is not durable yet."""
        size = 0
        try:
            size = disk.size(path)
        except FileNotFoundError:
            self.is_new = True
        self.count = size // entry_bytes
        self._is_torn = size % entry_bytes != 0

    def read(self, first: int, count: int) -> bytes:
        """The bytes of `count` entries from number `first` on, or of as many as there are."""
        count = min(count, self.count - first)
        return self.opened().pread(count * self.entry_bytes, first * self.entry_bytes)

    def append(self, entries: bytes) -> None:
        self.opened().pwritev((entries,), self.count * self.entry_bytes)
        self.count += len(entries) // self.entry_bytes
        self.unsynced = True

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count == self.count and not self._is_torn:
            return
        self._is_torn = False
        self.opened().truncate(count * self.entry_bytes)
        self.count = count
        self.unsynced = True

    def first_where(self, wanted: Callable[[bytes], bool]) -> int:
        """The number of the first entry for which `wanted` is true, if it is true for all after it; `count` if none."""
        return bisect_left(range(self.count), True, key=lambda number: wanted(self.read(number, 1)))

    def ensure_exists(self) -> None:
        """Kafka takes a missing index for a lost one and builds it anew, so that an empty one is worth its name."""
        if self.is_new:
            self.opened()

    def sync_target(self) -> File | None:
        """The file, if it holds what is not on the medium. The caller syncs it."""
        if not self.unsynced:
            return None
        self.unsynced = False
        return self.opened()

    def take_new_name(self) -> bool:
        """Whether the file was made since it was last asked."""
        if self._file is None or not self.is_new:
            return False
        self.is_new = False
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def opened(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

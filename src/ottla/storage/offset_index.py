"""Where in the segment a record is: the `.index` file.

An entry is the last offset of a batch, relative to the segment's base, and the position at which that batch starts:
two big-endian 32-bit integers, as in Kafka. There is one for every `index.interval.bytes` of records, so a lookup is
followed by a short walk over batch headers.

The index of a full segment is 2 MiB. Holding all of them would grow with the data that consumers read, so only two
pages stay in memory: the entries that are not written yet, and the page of the last lookup, in which a consumer that
reads on finds its next position too.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import broken
from ottla.storage.index_file import IndexFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.ports import Disk

ENTRY_BYTES = 8
PAGE_ENTRIES = 512
"""One page of the index is 4 KiB, and by default stands for 2 MiB of records."""
RELATIVE_OFFSET_MAX = 2**31 - 1
"""What an entry can say: a segment never holds an offset further from its base."""

_ENTRY = struct.Struct(">II")
_RELATIVE_OFFSET = struct.Struct(">I")
_SWAP = sys.byteorder == "little"


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class OffsetIndex:
    __slots__ = ("_base_offset", "_offsets", "_page", "_page_offsets", "_page_positions", "_positions", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.file = IndexFile(disk, path, ENTRY_BYTES)
        self._base_offset = base_offset
        self._offsets, self._positions = array("I"), array("I")
        self._page = -1
        self._page_offsets, self._page_positions = self._offsets, self._positions

    def __len__(self) -> int:
        return self.file.count + len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        relative = offset - self._base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:  # the words are not made for every batch
            broken(f"{self.file.path}: offset {offset} does not fit into an entry")
        self._offsets.append(relative)
        self._positions.append(position)

    @property
    def backlog(self) -> int:
        """Entries that are not written yet."""
        return len(self._offsets)

    def lookup(self, offset: int) -> int:
        """The position of a batch that starts at or before `offset`, the closest that the index knows."""
        relative = offset - self._base_offset
        unwritten = self._offsets
        if unwritten and relative >= unwritten[0]:
            return self._positions[bisect_right(unwritten, relative) - 1]
        if not self.file.count:
            return 0
        page = self._page_offsets
        if self._page < 0 or not page[0] <= relative <= page[-1]:
            self._load_page_of(relative)
            page = self._page_offsets
        at = bisect_right(page, relative)
        return self._page_positions[at - 1] if at else 0

    def beyond(self, offset: int, size_bytes: int) -> int | None:
        """An offset that lies behind so many bytes of batches, from the one with `offset` on: the closest that the
        index knows. None if it knows none.
        """
        relative, end = offset - self._base_offset, -1
        for offsets, positions in self._columns_from(offset):
            at = 0
            if end < 0:
                at = bisect_right(offsets, relative)
                if at == len(offsets):
                    continue
                end = positions[at] + size_bytes  # the batch with `offset` starts there, or before
            at = bisect_left(positions, end, at)
            if at < len(positions):
                return self._base_offset + offsets[at]
        return None

    def _columns_from(self, offset: int) -> Iterator[tuple[array[int], array[int]]]:
        """All entries in pieces, from the one on in which `offset` would be looked up."""
        if self.file.count and not (self._offsets and offset - self._base_offset >= self._offsets[0]):
            self.lookup(offset)
            yield self._page_offsets, self._page_positions
            for number in range((self._page + 1) * PAGE_ENTRIES, self.file.count, PAGE_ENTRIES):
                yield _columns(self.file.read(number, PAGE_ENTRIES))
        yield self._offsets, self._positions

    def last(self) -> OffsetEntry | None:
        if self._offsets:
            return OffsetEntry(self._base_offset + self._offsets[-1], self._positions[-1])
        if not self.file.count:
            return None
        relative, position = _ENTRY.unpack(self.file.read(self.file.count - 1, 1))
        return OffsetEntry(self._base_offset + relative, position)

    def truncate_to(self, offset: int) -> None:
        """Forget the batches that end at `offset` or after it."""
        relative = max(offset - self._base_offset, 0)
        keep = bisect_left(self._offsets, relative)
        del self._offsets[keep:], self._positions[keep:]
        if not keep:
            self._page = -1
            self.file.truncate(self.file.first_where(lambda entry: _RELATIVE_OFFSET.unpack_from(entry)[0] >= relative))

    def truncate_beyond(self, end_position: int) -> None:
        """Forget batches that are not in the file: their entries may have been written first."""
        last = self.last()
        if last is not None and last.position >= end_position:
            self.flush()
            self._page = -1
            self.file.truncate(self.file.first_where(lambda entry: _ENTRY.unpack(entry)[1] >= end_position))

    def flush(self) -> None:
        """Write what gathered. It is not synced."""
        if not self._offsets:
            return
        entries = array("I", bytes(ENTRY_BYTES * len(self._offsets)))
        entries[0::2], entries[1::2] = self._offsets, self._positions
        if _SWAP:
            entries.byteswap()
        self.file.append(entries.tobytes())
        self._offsets, self._positions = array("I"), array("I")
        self._page = -1

    def keep_ordered(self) -> None:
        """After a crash: drop what follows the first entry that is not larger than the one before it.

        The pages that were not synced may be zeros, or not there.
        """
        offsets, positions = _columns(self.file.read(0, self.file.count) if self.file.count else b"")
        self._page = -1
        self.file.truncate(min(_ordered(offsets), _ordered(positions)))

    def _load_page_of(self, relative: int) -> None:
        """The page that has the last entry at or before `relative`: the first page if there is none."""
        file = self.file
        low, high = 0, (file.count - 1) // PAGE_ENTRIES
        while low < high:
            middle = (low + high + 1) // 2
            if _RELATIVE_OFFSET.unpack_from(file.read(middle * PAGE_ENTRIES, 1))[0] <= relative:
                low = middle
            else:
                high = middle - 1
        self._page_offsets, self._page_positions = _columns(file.read(low * PAGE_ENTRIES, PAGE_ENTRIES))
        self._page = low


def read_entries(data: bytes, base_offset: int) -> Iterator[OffsetEntry]:
    """All entries of an index file, for those who check it."""
    for relative, position in _ENTRY.iter_unpack(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
        yield OffsetEntry(base_offset + relative, position)


def _columns(data: bytes) -> tuple[array[int], array[int]]:
    entries = array("I")
    entries.frombytes(data)
    if _SWAP:
        entries.byteswap()
    return entries[0::2], entries[1::2]


def _ordered(column: array[int]) -> int:
    """How many values from the first on are each larger than the one before."""
    for number, is_larger in enumerate(map(int.__lt__, column, column[1:]), 1):
        if not is_larger:
            return number
    return len(column)

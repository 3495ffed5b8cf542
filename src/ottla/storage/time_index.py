"""Which record was the first of a time: the `.timeindex` file.

An entry says that up to this offset no record of the segment is younger than this timestamp: a big-endian 64-bit time
in milliseconds and a 32-bit offset relative to the segment's base, the last of the batch that has the timestamp.
Entries are made together with those of the offset index, but only when the largest timestamp has grown; a closed
segment's last entry is its largest timestamp, which is what retention and the choice of a segment go by.

Searches by time are rare, so nothing is held in memory but what is not written yet and the last entry.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ottla.storage.index_file import IndexFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.ports import Disk

ENTRY_BYTES = 12
NO_TIMESTAMP = -1
_ENTRY = struct.Struct(">qi")


class TimeEntry(NamedTuple):
    timestamp_ms: int
    offset: int


class TimeIndex:
    __slots__ = ("_base_offset", "_offsets", "_times", "file", "last")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.file = IndexFile(disk, path, ENTRY_BYTES)
        self._base_offset = base_offset
        self._times, self._offsets = array("q"), array("q")
        """What is not written yet."""
        self.last = self._last_written()
        """The last entry; `NO_TIMESTAMP` at the base offset while there is none."""

    def __len__(self) -> int:
        return self.file.count + len(self._times)

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Note the largest timestamp so far, unless the last entry says the same."""
        if timestamp_ms > self.last.timestamp_ms:
            self.last = TimeEntry(timestamp_ms, offset)
            self._times.append(timestamp_ms)
            self._offsets.append(offset)

    def lookup(self, timestamp_ms: int) -> int:
        """An offset up to which no record is younger than `timestamp_ms`: where a search for it may start."""
        if at := bisect_right(self._times, timestamp_ms):
            return self._offsets[at - 1]
        after = self.file.first_where(lambda entry: bool(_ENTRY.unpack(entry)[0] > timestamp_ms))
        return self._written(after - 1).offset if after else self._base_offset

    def last_before(self, offset: int) -> TimeEntry:
        """The last entry of a batch that ends below `offset`."""
        if at := bisect_left(self._offsets, offset):
            return TimeEntry(self._times[at - 1], self._offsets[at - 1])
        relative = offset - self._base_offset
        after = self.file.first_where(lambda entry: bool(_ENTRY.unpack(entry)[1] >= relative))
        return self._written(after - 1) if after else TimeEntry(NO_TIMESTAMP, self._base_offset)

    def truncate_to(self, offset: int) -> None:
        """Forget what was noted at `offset` or after it."""
        if self.last.offset < offset:
            return
        keep = bisect_left(self._offsets, offset)
        del self._times[keep:], self._offsets[keep:]
        if not keep:
            relative = offset - self._base_offset
            self.file.truncate(self.file.first_where(lambda entry: bool(_ENTRY.unpack(entry)[1] >= relative)))
        self.last = TimeEntry(self._times[-1], self._offsets[-1]) if keep else self._last_written()

    def flush(self) -> None:
        """Write what gathered. It is not synced."""
        if self._times:
            base = self._base_offset
            entries = zip(self._times, self._offsets, strict=True)
            self.file.append(b"".join([_ENTRY.pack(time, offset - base) for time, offset in entries]))
            self._times, self._offsets = array("q"), array("q")

    def keep_ordered(self) -> None:
        """After a crash: drop what follows the first entry that is not younger than the one before it."""
        before = TimeEntry(NO_TIMESTAMP, -1)
        count = 0
        for entry in read_entries(self.file.read(0, self.file.count) if self.file.count else b"", 0):
            if entry.timestamp_ms <= before.timestamp_ms or entry.offset < before.offset:
                break
            before = entry
            count += 1
        self.file.truncate(count)
        self.last = self._last_written()

    def _last_written(self) -> TimeEntry:
        return self._written(self.file.count - 1) if self.file.count else TimeEntry(NO_TIMESTAMP, self._base_offset)

    def _written(self, number: int) -> TimeEntry:
        timestamp_ms, relative = _ENTRY.unpack(self.file.read(number, 1))
        return TimeEntry(timestamp_ms, self._base_offset + relative)


def read_entries(data: bytes, base_offset: int) -> Iterator[TimeEntry]:
    """All entries of a time index file, for those who check it."""
    for timestamp_ms, relative in _ENTRY.iter_unpack(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
        yield TimeEntry(timestamp_ms, base_offset + relative)

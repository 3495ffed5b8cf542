"""Reading a segment batch by batch: recovery, truncation, searches by time and the checks of `verify`.

The hot path never comes here, except for the ends of small reads. A scan reads in large pieces and hands out views of
them, so it costs little more than the reads.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.records import LENGTH_AT, LENGTH_OVERHEAD_BYTES, MAGIC, MAGIC_AT, RECORDS_AT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.ports import Bytes

PIECE_BYTES = 1 << 20
_LENGTH = struct.Struct(">i")
_WALK = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta."""


class Source(Protocol):
    def pread(self, size: int, position: int) -> bytes:
        """As that of a file."""


class BatchScan:
    """The whole batches between two positions of a file, in order.

    While a batch is in the loop's hands, `position` is where it starts; afterwards it is where the scan stopped, and
    `problem` says why if that is before the end.
    """

    __slots__ = ("_end", "_file", "position", "problem")

    def __init__(self, file: Source | None, position: int, end: int) -> None:
        self._file = file
        self._end = end
        self.position = position
        self.problem = ""

    def __iter__(self) -> Iterator[memoryview]:
        wanted, file = PIECE_BYTES, self._file
        while file is not None and self.position < self._end and not self.problem:
            asked = min(wanted, self._end - self.position)
            piece = memoryview(file.pread(asked, self.position))
            at = 0
            while (size := self._size_at(piece, at)) and at + size <= len(piece):
                yield piece[at : at + size]
                at += size
                self.position += size
            wanted = PIECE_BYTES
            if not at and not self.problem:
                wanted = max(size, RECORDS_AT, PIECE_BYTES)
                if len(piece) < asked or max(size, RECORDS_AT) > self._end - self.position:
                    self.problem = f"the batch at position {self.position} is not whole"

    def _size_at(self, piece: memoryview, at: int) -> int:
        """What the header there says; 0 if it is not whole, or not one."""
        if len(piece) - at < RECORDS_AT:
            return 0
        size = int(_LENGTH.unpack_from(piece, at + LENGTH_AT)[0]) + LENGTH_OVERHEAD_BYTES
        if size < RECORDS_AT or piece[at + MAGIC_AT] != MAGIC:
            self.problem = f"no record batch starts at position {self.position}"
            return 0
        return size


def end_of_batches(records: Bytes) -> int:
    """The offset behind the last batch that is there as a whole; 0 if none is."""
    at, end_offset, size = 0, 0, len(records)
    while size - at >= RECORDS_AT:
        base_offset, length, delta = _WALK.unpack_from(records, at)
        at += LENGTH_OVERHEAD_BYTES + length
        if at > size:
            break
        end_offset = base_offset + delta + 1
    return int(end_offset)

"""Reading a segment batch by batch: recovery, truncation, searches by time and the checks of `verify`.

The hot path never comes here. A scan reads in large pieces and hands out views of them, so it costs little more than
the reads.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.records import LENGTH_AT, LENGTH_OVERHEAD_BYTES, MAGIC, MAGIC_AT, RECORDS_AT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.ports import File

PIECE_BYTES = 1 << 20
_LENGTH = struct.Struct(">i")


class BatchScan:
    """The whole batches between two positions of a file, in order.

    While a batch is in the loop's hands, `position` is where it starts; afterwards it is where the scan stopped, and
    `problem` says why if that is before the end.
    """

    __slots__ = ("_end", "_file", "position", "problem")

    def __init__(self, file: File | None, position: int, end: int) -> None:
        self._file = file
        self._end = end
        self.position = position
        self.problem = ""

    def __iter__(self) -> Iterator[memoryview]:
        wanted, file = PIECE_BYTES, self._file
        while file is not None and self.position < self._end and not self.problem:
            piece = memoryview(file.pread(min(wanted, self._end - self.position), self.position))
            at = 0
            while at < len(piece):
                size = self._batch_size(piece, at)
                if size > len(piece) - at:
                    break
                yield piece[at : at + size]
                at += size
                self.position += size
            else:
                continue
            wanted = max(PIECE_BYTES, size)
            if not at:
                self._judge_incomplete(size, len(piece))

    def _batch_size(self, piece: memoryview, at: int) -> int:
        """What the header says; more than there is where the header itself is not whole or not one."""
        left = len(piece) - at
        if left < RECORDS_AT:
            return left + 1
        size = int(_LENGTH.unpack_from(piece, at + LENGTH_AT)[0]) + LENGTH_OVERHEAD_BYTES
        if size < RECORDS_AT or piece[at + MAGIC_AT] != MAGIC:
            self.problem = f"no record batch starts at position {self.position}"
            return left + 1
        return size

    def _judge_incomplete(self, size: int, got: int) -> None:
        """A piece that starts with a batch and does not hold all of it: read more, or there is no more."""
        if not self.problem and (size > self._end - self.position or got < min(size, self._end - self.position)):
            self.problem = f"the batch at position {self.position} is not whole"

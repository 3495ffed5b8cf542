"""Which transactions of a segment were aborted: the `.txnindex` file.

A reader of committed records gets the aborted transactions that reach into what it fetched, and skips their records.
An entry is written when an abort marker is appended, into the index of the segment that holds the marker: version,
producer id, first offset, the marker's offset, and the last stable offset at that moment, which tells a search that
nothing later can concern it. The file is made with the first abort, so most segments have none.

However many aborts there are, a search looks at few: markers and last stable offsets are in order, so what lies before
and after the range is passed over by bisection. What is left are transactions that were open at its end.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from ottla.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.ports import Disk, File

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0
_BLOCK = 64
_last_offset = attrgetter("last_offset")
_last_stable_offset = attrgetter("last_stable_offset")


@value
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    """Where its abort marker is."""
    last_stable_offset: int
    """The first offset that was still undecided after the abort."""


class TxnIndex:
    """The aborted transactions of one segment, in the order of their markers. Loaded whole: aborts are few."""

    __slots__ = ("_disk", "_file", "_is_new", "_is_torn", "_least", "_path", "_written", "aborted", "unsynced")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self.unsynced = False
        self._is_new = False
        data = self._read()
        self.aborted = list(read_entries(data))
        self._least = _least_of_blocks(self.aborted)
        """The smallest first offset of each block of entries: a long transaction may have many short ones in it."""
        self._written = len(self.aborted)
        self._is_torn = len(data) % ENTRY_BYTES != 0

    def append(self, transaction: AbortedTransaction) -> None:
        if len(self.aborted) % _BLOCK:
            self._least[-1] = min(self._least[-1], transaction.first_offset)
        else:
            self._least.append(transaction.first_offset)
        self.aborted.append(transaction)

    def collect(self, from_offset: int, upto_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that have records in the range, and whether later segments need not be asked."""
        aborted = self.aborted
        if not aborted:
            return [], False
        start = bisect_left(aborted, from_offset, key=_last_offset)
        ended = bisect_left(aborted, upto_offset, lo=start, key=_last_offset)
        decided = bisect_left(aborted, upto_offset, lo=start, key=_last_stable_offset)
        found = aborted[start:ended]
        at, end = ended, min(decided + 1, len(aborted))
        while at < end:
            block = at // _BLOCK
            after = min((block + 1) * _BLOCK, end)
            if self._least[block] < upto_offset:
                found += [entry for entry in aborted[at:after] if entry.first_offset < upto_offset]
            at = after
        return found, decided < len(aborted)

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose marker is at `offset` or after it."""
        self._keep([transaction for transaction in self.aborted if transaction.last_offset < offset])

    def keep_ordered(self, base_offset: int) -> None:
        """After a crash: drop what follows the first entry that is not of this segment, or not after the one before."""
        ordered: list[AbortedTransaction] = []
        for transaction in self.aborted:
            if transaction.last_offset < (ordered[-1].last_offset + 1 if ordered else base_offset):
                break
            ordered.append(transaction)
        self._keep(ordered)

    def keep_backed(self, is_backed: Callable[[AbortedTransaction], bool]) -> None:
        """After a crash: drop entries from the end until one is what the log says too.

        What was written last may be torn, and bytes that are half lost can look like a transaction that never was.
        """
        count = len(self.aborted)
        while count and not is_backed(self.aborted[count - 1]):
            count -= 1
        if count < len(self.aborted):
            self._keep(self.aborted[:count])

    def _keep(self, transactions: list[AbortedTransaction]) -> None:
        self.aborted = transactions
        self._least = _least_of_blocks(transactions)
        if self._written > len(self.aborted) or self._is_torn:
            self._written = len(self.aborted)
            self._open().truncate(self._written * ENTRY_BYTES)
            self._is_torn = False
            self.unsynced = True

    def flush(self) -> None:
        unwritten = self.aborted[self._written :]
        if unwritten:
            self._open().pwritev([_pack(transaction) for transaction in unwritten], self._written * ENTRY_BYTES)
            self._written = len(self.aborted)
            self.unsynced = True

    def sync_target(self) -> File | None:
        if not self.unsynced:
            return None
        self.unsynced = False
        return self._open()

    def take_new_name(self) -> bool:
        """Whether the file was made since it was last asked: its name is not durable yet."""
        if not self._is_new or self._file is None:
            return False
        self._is_new = False
        return True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> bytes:
        if not self._disk.exists(self._path):
            self._is_new = True
            return b""
        file = self._open()
        return file.pread(file.size(), 0)

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        return self._file


def _least_of_blocks(aborted: list[AbortedTransaction]) -> list[int]:
    return [min(entry.first_offset for entry in aborted[at : at + _BLOCK]) for at in range(0, len(aborted), _BLOCK)]


def read_entries(data: bytes) -> Iterator[AbortedTransaction]:
    for _, producer_id, first, last, stable in _ENTRY.iter_unpack(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
        yield AbortedTransaction(
            producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
        )


def _pack(transaction: AbortedTransaction) -> bytes:
    return _ENTRY.pack(
        _VERSION,
        transaction.producer_id,
        transaction.first_offset,
        transaction.last_offset,
        transaction.last_stable_offset,
    )

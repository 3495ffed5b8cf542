"""The segment that a compaction writes, with its indexes, under names that a start-up throws away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.records import BATCH_HEADER
from ottla.storage import names
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import NO_TIMESTAMP, TimeIndex
from ottla.storage.txn_index import TxnIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.ports import Bytes, Disk
    from ottla.storage.txn_index import AbortedTransaction

_WRITE_BYTES = 1 << 20
_SYNC_BYTES = 4 << 20
"""A sync of a whole segment would keep the disk busy for as long as it takes to write it, and every commit waits."""


class CleanedSegment:
    def __init__(self, disk: Disk, directory: str, base_offset: int, interval_bytes: int) -> None:
        def path(suffix: str) -> str:
            return f"{directory}/{names.file_name(base_offset, suffix)}{names.CLEANED}"

        for suffix in names.SEGMENT_SUFFIXES:
            disk.remove(path(suffix))  # of a compaction that was interrupted
        self._file = disk.open(path(names.LOG), create=True)
        self._offsets = OffsetIndex(disk, path(names.OFFSET_INDEX), base_offset)
        self._times = TimeIndex(disk, path(names.TIME_INDEX), base_offset)
        # Made even if nothing is aborted: after a crash its name tells whether it is in place already.
        disk.open(path(names.TXN_INDEX), create=True).close()
        self._txns = TxnIndex(disk, path(names.TXN_INDEX))
        self._interval_bytes = interval_bytes
        self._buffers: list[Bytes] = []
        self._written = self._synced = self._indexed = 0
        self.size_bytes = 0
        self._largest_ms, self._largest_offset = NO_TIMESTAMP, base_offset

    def append(self, batch: Bytes, pace: Callable[[int], None]) -> None:
        fields = BATCH_HEADER.unpack_from(batch)
        last_offset, timestamp_ms = fields[0] + fields[6], fields[8]
        if timestamp_ms > self._largest_ms:
            self._largest_ms, self._largest_offset = timestamp_ms, last_offset
        if self.size_bytes > self._indexed + self._interval_bytes:
            self._indexed = self.size_bytes
            self._offsets.append(last_offset, self.size_bytes)
            self._times.append(self._largest_ms, self._largest_offset)
        self._buffers.append(bytes(batch))
        self.size_bytes += len(batch)
        if self.size_bytes - self._written >= _WRITE_BYTES:
            self._write(pace)

    def _write(self, pace: Callable[[int], None]) -> None:
        size = self._file.pwritev(self._buffers, self._written)
        self._written += size
        self._buffers.clear()
        if self._written - self._synced >= _SYNC_BYTES:
            self._file.sync()
            self._synced = self._written
        pace(size)

    def note_abort(self, transaction: AbortedTransaction) -> None:
        self._txns.append(transaction)

    def finish(self, pace: Callable[[int], None]) -> None:
        """All of it is on the medium when this returns; its names are not."""
        self._write(pace)
        self._times.append(self._largest_ms, self._largest_offset)
        for index in (self._offsets, self._times):
            index.flush()
            index.file.ensure_exists()
            target = index.file.sync_target()
            if target is not None:
                target.sync()
            index.file.close()
        self._txns.flush()
        txns = self._txns.sync_target()
        if txns is not None:
            txns.sync()
        self._txns.close()
        self._file.sync()
        self._file.close()

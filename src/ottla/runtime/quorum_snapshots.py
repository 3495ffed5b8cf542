"""Takes snapshots of the metadata, so that its log need not be kept for ever.

When the log has grown enough since the last one, the image, which never changes, is encoded a slice per turn of the
loop and written in a thread. When it is on disk the log gives up what the snapshot before this one holds: a follower
that is a little behind still finds its entries here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.metadata.snapshot import records_of
from ottla.runtime.metadata_snapshot import SnapshotId, StoredSnapshot, snapshot_batches

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.raft.entry import Snapshot
    from ottla.runtime.quorum import Quorum

log = logging.getLogger(__name__)


class SnapshotTaker:
    def __init__(self, *, quorum: Quorum, loop: asyncio.AbstractEventLoop, executor: Executor, bytes_max: int) -> None:
        """`bytes_max`: what the log may grow by before the next snapshot is taken."""
        self._quorum = quorum
        self._loop = loop
        self._executor = executor
        self._bytes_max = bytes_max
        self._is_busy = False
        self._grown_before = 0
        self._looked_at: tuple[MetadataImage, int] | None = None
        """The newest that came while a snapshot was being taken."""
        self._is_stopped = False
        self._idle = asyncio.Event()
        self._idle.set()

    def look(self, image: MetadataImage, applied: int) -> None:
        """`image` holds everything up to the entry `applied`: take a snapshot of it if it is time."""
        if self._is_busy:
            self._looked_at = image, applied
            return
        if self._is_stopped or self._quorum.store.log.grown_bytes < self._bytes_max:
            return
        snapshot = self._quorum.snapshot_at(applied)
        if snapshot is not None and snapshot.last.index > self._quorum.store.newest.snapshot.last.index:
            self._begin(snapshot, image)

    async def stop(self) -> None:
        self._is_stopped = True
        await self._idle.wait()

    def _begin(self, snapshot: Snapshot, image: MetadataImage) -> None:
        self._is_busy = True
        self._grown_before = self._quorum.store.log.grown_bytes
        self._idle.clear()
        snapshot_id = SnapshotId(self._quorum.store.log.end_offset(snapshot.last.index), snapshot.last.term)
        stored = StoredSnapshot(snapshot_id=snapshot_id, snapshot=snapshot)
        self._encode(stored, snapshot_batches(snapshot, records_of(image)), [])

    def _encode(self, stored: StoredSnapshot, batches: Iterator[bytes], encoded: list[bytes]) -> None:
        """One batch a turn: clients have theirs in between."""
        if self._is_stopped:
            self._end()
            return
        batch = next(batches, None)
        if batch is not None:
            encoded.append(batch)
            self._loop.call_soon(self._encode, stored, batches, encoded)
        else:
            self._executor.submit(self._write, stored, encoded)

    def _write(self, stored: StoredSnapshot, encoded: list[bytes]) -> None:
        """In a thread."""
        error: OSError | None = None
        try:
            self._quorum.store.put(stored.snapshot_id, encoded)
        except OSError as refused:
            error = refused
        self._loop.call_soon_threadsafe(self._written, stored, error)

    def _written(self, stored: StoredSnapshot, error: OSError | None) -> None:
        if error is not None:
            log.warning("no snapshot of the metadata could be written: %s", error)
        elif not self._is_stopped:
            since = self._quorum.store.log.grown_bytes - self._grown_before
            self._quorum.took_snapshot(stored)
            log_now = self._quorum.store.log
            log_now.grown_bytes = max(log_now.grown_bytes, since)  # what came while it was taken is not in it
        self._end()

    def _end(self) -> None:
        self._is_busy = False
        self._idle.set()
        newer, self._looked_at = self._looked_at, None
        if newer is not None:
            self.look(*newer)

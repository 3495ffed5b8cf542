"""What leaves the event loop: writes and syncs that a worker thread may do.

The loop decides what goes where and takes it out of the log's state; from then on these objects hold all they need, so
that a thread never reads what the loop may be changing. When the thread is done, the loop tells the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.storage.names import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.ports import Disk, File
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment


class Syncable(Protocol):
    def sync(self) -> None:
        """What it stands for is on the medium when this returns. Any thread. OSError as the disk raises it."""


class Run:
    """The part of a write that goes into one segment."""

    __slots__ = ("buffers", "end_position", "position", "segment")

    def __init__(self, segment: Segment, position: int, end_position: int, buffers: list[bytes]) -> None:
        self.segment = segment
        self.position = position
        self.end_position = end_position
        self.buffers = buffers


class PendingWrite:
    """One log's share of a commit: batches that have their offsets and positions, and are not in a file yet."""

    __slots__ = ("buffers", "end_offset", "log", "runs", "size_bytes")

    def __init__(
        self, log: Log, buffers: list[bytes], size_bytes: int, end_offset: int, runs: Sequence[Run] = ()
    ) -> None:
        self.log = log
        self.buffers = buffers
        """Head, body, head, body…, perhaps joined into one once the journal has looked at them. May go into two
        segments if the log rolled."""
        self.size_bytes = size_bytes
        self.end_offset = end_offset
        self.runs = runs
        """Where it is written to; empty if it is held (see `held`)."""

    @property
    def base_offset(self) -> int:
        return int.from_bytes(self.buffers[0][:8])

    def run(self) -> None:
        """Write into the segment files. Any thread. After an OSError the log must be reloaded."""
        for run in self.runs:
            if not run.position:
                self.log.ensure_directory()
            run.segment.writable_file().pwritev(run.buffers, run.position)

    def files(self) -> list[Syncable]:
        """After `run`: what to sync so that the write is durable without a journal, unless the log `has_debts`. Any
        thread."""
        files: list[Syncable] = [FileSync(run.segment.writable_file()) for run in self.runs]
        if any(run.position == 0 for run in self.runs):
            files += name_syncs(self.log.disk, self.log.directory)
        return files

    def finish(self) -> None:
        """In the loop, after `run`: readers find it now."""
        self.log.finish_write(self)


class FileSync:
    """The bytes of one file; one that nobody will use soon is closed afterwards.

    With `since` in pieces: what lies before it was synced already, and nobody waits for the rest.
    """

    __slots__ = ("_and_close", "_file", "_since")

    def __init__(self, file: File, *, and_close: bool = False, since: int | None = None) -> None:
        self._file = file
        self._and_close = and_close
        self._since = since

    def sync(self) -> None:
        try:
            if self._since is None:
                self._file.sync()
            else:
                self._file.sync_in_pieces(self._since)
        except FileNotFoundError:
            return  # retention or truncation removed the file while this waited for its turn: nothing is left to keep
        self.synced()

    def synced(self) -> None:
        if self._and_close:
            self._file.close()


class DirectorySync:
    """The names in one directory."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        try:
            self._disk.sync_directory(self._path)
        except FileNotFoundError:
            return  # the partition was deleted meanwhile


def name_syncs(disk: Disk, directory: str) -> list[Syncable]:
    """The names in a partition's directory, and the directory's own."""
    return [DirectorySync(disk, directory), DirectorySync(disk, directory.rpartition("/")[0])]


class ReplaceFile:
    """A small file that is replaced as a whole: after a crash there is the old one or the new one."""

    __slots__ = ("_data", "_disk", "_path")

    def __init__(self, disk: Disk, path: str, data: bytes) -> None:
        self._disk = disk
        self._path = path
        self._data = data

    def sync(self) -> None:
        """Write it. Its name is durable after a sync of the directory."""
        file = self.write()
        if file is not None:
            file.sync()
            file.close()
            self.put_in_place()

    def write(self) -> File | None:
        """The new content, beside the old."""
        try:
            file = self._disk.open(self._path + TEMPORARY, create=True)
            file.truncate(0)
            file.pwritev((self._data,), 0)
        except FileNotFoundError:
            return None  # the partition was deleted meanwhile
        return file

    def put_in_place(self) -> None:
        """Once the content is synced."""
        try:
            self._disk.rename(self._path + TEMPORARY, self._path)
        except FileNotFoundError:
            return  # the partition was deleted meanwhile


MANY_SYNCS = 64
"""From here on one sync of the whole disk is cheaper than one of each file: 10,000 files at a stop took minutes."""


def sync_many(disk: Disk, targets: Sequence[Syncable]) -> None:
    """Sync all of these. Any thread. OSError as the disk raises it."""
    if len(targets) < MANY_SYNCS:
        for target in targets:
            target.sync()
        return
    write_replacements(targets)
    sync_written(disk, targets)


def write_replacements(targets: Sequence[Syncable]) -> None:
    """What has to be written before `sync_written`. A refusal here has done no harm."""
    for target in targets:
        written = target.write() if isinstance(target, ReplaceFile) else None
        if written is not None:
            written.close()


def sync_written(disk: Disk, targets: Sequence[Syncable]) -> None:
    """All of these, by syncing the disk."""
    disk.sync()
    replaced = [target for target in targets if isinstance(target, ReplaceFile)]
    for file in replaced:
        file.put_in_place()
    if replaced:
        disk.sync()
    for target in targets:
        if isinstance(target, FileSync):
            target.synced()
        elif not isinstance(target, DirectorySync | ReplaceFile):
            target.sync()  # of a kind that we know nothing of

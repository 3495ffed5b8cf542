"""Small writes that wait in memory to become larger ones.

A commit of a node with many partitions changes hundreds of logs by one batch each. The journal takes them all in one
write; writing each into its segment at once as well is a system call per log, and on the medium nobody needs it there
before the next checkpoint. So the segment keeps a small share for itself (`Segment.held`), where readers find it, and
writes what has gathered when that is much, when the log rolls, and before its files are synced. What is much is written
after the commit has been answered: meanwhile clients are at work on what they send next. Where a thread runs commits,
since the disk is slow, it is written with the log's next share, so that the loop does not wait for that disk.

Only what is in the journal may wait: after a crash it is all that is left of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.storage.log import Log
    from ottla.storage.pending import PendingWrite

SHARE_BYTES_MAX = 128 << 10
"""A log's share of a commit is not held if it is larger: then the copy costs more than the call. Five batches of
16 KiB, what a producer has in flight by default, are held."""
LOG_BYTES_MAX = 32 << 10
ALL_BYTES_MAX = 64 << 20
"""As much as a file of the journal holds. A checkpoint comes when that is full: less would be written twice."""
NO_BOUND = 1 << 62


class Held:
    """The logs that hold something, the one that began first at the head."""

    def __init__(self, *, log_bytes_max: int = LOG_BYTES_MAX, all_bytes_max: int = ALL_BYTES_MAX) -> None:
        self.log_bytes_max = log_bytes_max
        self._all_bytes_max = all_bytes_max
        self._logs: dict[Log, None] = {}
        """A log that has written what it held, since it rolled, counts on until its next commit."""
        self._much: dict[Log, None] = {}
        """Those that hold enough to be written."""
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def is_full(self) -> bool:
        return self._bytes > self._all_bytes_max

    @property
    def is_too_much(self) -> bool:
        return bool(self._much) or self.is_full

    def add(self, shares: Iterable[PendingWrite]) -> None:
        """Those of them that are held are in their logs now."""
        log_bytes_max, added = self.log_bytes_max, 0
        for share in shares:
            if not share.runs:
                log, size_bytes = share.log, share.size_bytes
                before = log.held_bytes
                log.held_bytes = held_bytes = before + size_bytes
                added += size_bytes
                if not before:
                    self._logs[log] = None
                if held_bytes > log_bytes_max:
                    self._much[log] = None
        self._bytes += added

    def write(self, logs_max: int = NO_BOUND) -> None:
        """What is too much, of so many logs. OSError if the disk refuses it; it is still held then."""
        while logs_max and self.is_too_much:
            self._write(next(iter(self._much or self._logs)))
            logs_max -= 1

    def _write(self, log: Log) -> None:
        log.write_held()
        self.forget(log)

    def forget(self, log: Log) -> None:
        """`log` holds nothing any more, or is deleted: its file may be gone."""
        if log.held_bytes:
            del self._logs[log]
            self._much.pop(log, None)
            self._bytes -= log.held_bytes
            log.held_bytes = 0

"""Files that are no longer part of any log, waiting to be removed.

They stay for `file.delete.delay.ms`, so that a read that is under way can end. Removing is done in the background,
since giving back a large file takes the file system its time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.storage.retention import DeletedSegment

log_lines = logging.getLogger(__name__)

REMOVALS_PER_JOB = 16

Remove = Callable[[], None]


class Removals:
    """Those that are due first come first."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting: list[tuple[int, int, Remove]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add_tree(self, directory: str, due_ms: int) -> None:
        self._add(due_ms, lambda: self._disk.remove_tree(directory))

    def add_segments(self, segments: Sequence[DeletedSegment], due_ms: int) -> None:
        for segment in segments:
            self._add(due_ms, segment.remove)

    def _add(self, due_ms: int, remove: Remove) -> None:
        self._added += 1
        heappush(self._waiting, (due_ms, self._added, remove))

    def job(self, now_ms: int) -> RemovalJob | None:
        """Some of those that are due."""
        due: list[Remove] = []
        while self._waiting and self._waiting[0][0] <= now_ms and len(due) < REMOVALS_PER_JOB:
            due.append(heappop(self._waiting)[2])
        return RemovalJob(self._disk, due) if due else None


class RemovalJob:
    def __init__(self, disk: Disk, removals: list[Remove]) -> None:
        self._disk = disk
        self._removals = removals

    def run(self) -> None:
        try:
            # A directory must not lose its files while a crash could still give it its old name back.
            self._disk.sync_directory("")
            for remove in self._removals:
                remove()
        except OSError as error:
            log_lines.warning("Could not remove files that are no longer needed: %s", error)

    def finish(self) -> None:
        """Nothing is left to do."""

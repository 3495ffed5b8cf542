"""Compaction in this process, on a disk that no other has: for simulated nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.storage.compaction_task import Done, Task


class CleaningHere:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def compact(self, task: Task) -> Done:
        from ottla.storage.compaction import compact  # a real node never needs it

        return compact(self._disk, task, _at_once)

    def cancel(self) -> None:
        """It ends by itself."""


def _at_once(_size_bytes: int) -> None:
    """No limit on what is read and written."""

"""The last of the disk is kept for what this node writes itself, so that a full disk can still be emptied.

Deleting a topic or shortening its retention is a record in the metadata log, and every commit a block in the journal:
both need a little room. If clients could fill the disk to its last byte, the very requests that would free it could be
refused too. So clients' records are refused while less than a reserve is left, with the error that a full disk gives.

Looking costs a system call, so it is done after commits, and seldom while there is plenty (`after_commits`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.storage.journal import RESERVE_BYTES

if TYPE_CHECKING:
    from ottla.ports import Disk

log = logging.getLogger(__name__)

PLENTY_BYTES = 2 << 30


class Room:
    """Called in the event loop."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.is_full = False
        """As of the last look. Whoever is refused by it looks again first: there may be room by now."""
        self.has_plenty = False
        """As of the last look."""

    def look(self) -> bool:
        """Whether the disk has no more than the reserve left."""
        free_bytes = self._disk.free_bytes()
        self.has_plenty = free_bytes >= PLENTY_BYTES
        is_full = free_bytes < RESERVE_BYTES
        if is_full is not self.is_full:
            self.is_full = is_full
            self._tell(free_bytes)
        return is_full

    def _tell(self, free_bytes: int) -> None:
        if self.is_full:
            log.error("the disk is full (%d KiB are left): records are refused until there is room", free_bytes >> 10)
        else:
            log.info("there is room on the disk again: records are taken")

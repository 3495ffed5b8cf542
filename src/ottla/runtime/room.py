"""The last of the disk is kept for what this node writes itself, so that a full disk can still be emptied.

Deleting a topic or shortening its retention is a record in the metadata log, and every commit a block in the journal:
both need a little room. If clients could fill the disk to its last byte, the very requests that would free it could be
refused too. So clients' records are refused while less than a reserve is left, with the error that a full disk gives.

Looking costs a system call, so it is done after commits, and seldom while there is plenty.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.storage.journal import RESERVE_BYTES

if TYPE_CHECKING:
    from ottla.ports import Clock, Disk

log = logging.getLogger(__name__)

PLENTY_BYTES = 2 << 30
PAUSE_MS = 200
"""Between two looks while there is plenty: too short for any disk to be filled in."""


class Room:
    """Called in the event loop."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._look_from_ms = 0
        self.is_full = False
        """As of the last look. Whoever is refused by it looks again first: there may be room by now."""

    def after_commit(self) -> None:
        if self._clock.monotonic_ms() >= self._look_from_ms:
            self.look()

    def look(self) -> bool:
        """Whether the disk has no more than the reserve left."""
        free_bytes = self._disk.free_bytes()
        if free_bytes >= PLENTY_BYTES:
            self._look_from_ms = self._clock.monotonic_ms() + PAUSE_MS
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

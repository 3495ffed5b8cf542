"""What has to be looked at when something was written: whether there is room, and what the upkeep should do.

Hardly any commit changes either, and the two looks were a tenth of the Python of a lone writer's request. So they come
soon after a commit, once for all that were made meanwhile; and at once where the journal has come to a point at which
the upkeep is waited for, or where there is little room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.room import Room
    from ottla.runtime.timers import Timers
    from ottla.runtime.upkeep import Upkeep
    from ottla.storage.journal import Journal

LOOK_MS = 100
"""Too short for a disk with plenty of room to be filled in, and as long as checkpoints are apart at least."""


class AfterCommits:
    """Called in the event loop."""

    def __init__(self, *, room: Room, upkeep: Upkeep, journal: Journal, timers: Timers) -> None:
        self._room = room
        self._upkeep = upkeep
        self._journal = journal
        self._timers = timers
        self._will_look = False

    def committed(self) -> None:
        """A commit has ended, perhaps refused."""
        if self._journal.is_at_a_turn:
            self._upkeep.look()
        if not self._room.has_plenty:
            self._look()
        elif not self._will_look:
            self._will_look = True
            self._timers.after_ms(LOOK_MS, self._look_at_last)

    def _look_at_last(self) -> None:
        self._will_look = False
        self._look()

    def _look(self) -> None:
        self._room.look()
        self._upkeep.look()

"""Leadership is handed over (dissertation, 3.10).

The leader takes no more proposals, waits until the chosen voter has its whole log, and tells it to campaign at once. If
that voter has not been elected after an election time-out, everything is as before.
"""

from __future__ import annotations

from ottla.raft.core import Core
from ottla.raft.messages import TimeoutNow
from ottla.raft.progress import Progress


class Transfer:
    __slots__ = ("_core", "_is_told", "_progress", "_ticks", "target")

    def __init__(self, core: Core, target: int, progress: Progress) -> None:
        self._core = core
        self._progress = progress
        self.target = target
        self._ticks = 0
        self._is_told = False

    def tick(self) -> bool:
        """Whether it still has time."""
        self._ticks += 1
        return self._ticks < self._core.settings.election_ticks

    def advance(self) -> None:
        core = self._core
        if not self._is_told and self._progress.match == core.log.last_index:
            self._is_told = True
            core.send(self.target, TimeoutNow(sender=core.node_id, term=core.term))

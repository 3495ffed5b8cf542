"""Whether the processors have more to do than they can, as the node's own thread notices: it has to wait for its turn.

Linux counts how often a thread was let in, and how long it had been ready before. Where a client fills the machine
beside its node, each sync ends with a wait about as long as the sync. Then it is better to sleep than to look out for
what clients send, since they can not send it while a node looks (docs/decisions/0045-naps.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Waits: TypeAlias = tuple[int, int]
"""Nanoseconds for which a thread was ready and not let in, and how often it was let in."""


def own_waits() -> Waits | None:
    """Of this thread, since it began. None where the system does not tell."""
    try:
        _, waited_ns, times = Path("/proc/thread-self/schedstat").read_bytes().split()
    except (OSError, ValueError):
        return None
    return int(waited_ns), int(times)


class Crowding:
    """Learns from the last commits: a look at the system's counters now and then."""

    LOOK_EVERY: Final = 64
    """Commits."""
    FULL_FROM_NS: Final = 50_000
    """For each time that the thread is let in: 75 to 125 µs beside Java's client, 1 to 24 where there is room."""
    FULL_UNTIL_NS: Final = 30_000

    def __init__(self, waits: Callable[[], Waits | None] = own_waits) -> None:
        self._waits = waits
        self._before: Waits | None = None
        self._until_look = 0
        self.is_full = False

    def committed(self) -> None:
        """In the node's thread, after each commit."""
        self._until_look -= 1
        if self._until_look < 0:
            self._until_look = self.LOOK_EVERY - 1
            self._look()

    def _look(self) -> None:
        before, now = self._before, self._waits()
        self._before = now
        if before is None or now is None:
            self.is_full = False
            return
        waited_ns, times = now[0] - before[0], now[1] - before[1]
        self.is_full = times > 0 and waited_ns >= times * (self.FULL_UNTIL_NS if self.is_full else self.FULL_FROM_NS)

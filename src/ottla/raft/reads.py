"""Reads that must not be stale (paper, 8; dissertation, 6.4).

A leader that was cut off may not know that there is a newer one, and that more is committed. So it notes how far the
log is committed when a read comes, and asks for a round of heartbeats: when a majority has answered one that was begun
after the read, no newer leader can have committed anything before the read. All reads of a turn share a round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Reader(NamedTuple):
    node_id: int
    read_id: int


@dataclass(frozen=True, slots=True)
class Waiting:
    round: int
    index: int
    reader: Reader


class PendingReads:
    __slots__ = ("_new", "_waiting", "round")

    def __init__(self) -> None:
        self.round = 0
        """The newest round of heartbeats."""
        self._new: list[Reader] = []
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._new) + len(self._waiting)

    def add(self, reader: Reader) -> None:
        self._new.append(reader)

    def begin_round(self, commit: int) -> bool:
        """Whether there are new reads, for which a round must be asked for. They see the state after `commit`."""
        if not self._new:
            return False
        self.round += 1
        self._waiting.extend(Waiting(self.round, commit, reader) for reader in self._new)
        self._new = []
        return True

    def confirmed(self, round_number: int) -> Iterator[tuple[Reader, int]]:
        """The reads that may be served, and the index that they must see, as a majority has answered `round_number`."""
        while self._waiting and self._waiting[0].round <= round_number:
            waiting = self._waiting.popleft()
            yield waiting.reader, waiting.index

    def abandon(self) -> Iterator[Reader]:
        """Leadership is lost: nothing can be confirmed any more."""
        readers = [*(waiting.reader for waiting in self._waiting), *self._new]
        self._waiting.clear()
        self._new = []
        return iter(readers)

"""Requests that come while the markers of the last transaction are being written.

Kafka answers CONCURRENT_TRANSACTIONS, and the client tries again after a pause that is longer than the markers take. So
they wait here, for a moment; only who would wait too long is told so.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.replicated import Token

WAIT_MS = 100
"""Below the pause that clients make by themselves, and far below any time-out of theirs."""


class Waiting(NamedTuple):
    token: Token
    deadline_ms: int
    ask: Callable[[int], Any]
    """Decides again, at the time it is given. It may have to go on waiting."""
    too_long: object
    """The answer if the deadline comes first."""


class WaitingRoom:
    __slots__ = ("_by_id", "_deadlines", "_ready")

    def __init__(self) -> None:
        self._by_id: dict[str, list[Waiting]] = {}
        self._ready: deque[Waiting] = deque()
        self._deadlines: list[tuple[int, str]] = []

    def add(self, transactional_id: str, waiting: Waiting) -> None:
        self._by_id.setdefault(transactional_id, []).append(waiting)
        heapq.heappush(self._deadlines, (waiting.deadline_ms, transactional_id))

    def release(self, transactional_id: str) -> None:
        """The markers are written: those who waited for it are asked again, in the order in which they came."""
        self._ready.extend(self._by_id.pop(transactional_id, ()))

    def next_ready(self) -> Waiting | None:
        return self._ready.popleft() if self._ready else None

    def take_late(self, now_ms: int) -> list[Waiting]:
        """Those who have waited too long."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            transactional_id = heapq.heappop(self._deadlines)[1]
            waiting = self._by_id.pop(transactional_id, [])
            late += [one for one in waiting if one.deadline_ms <= now_ms]
            patient = [one for one in waiting if one.deadline_ms > now_ms]
            if patient:
                self._by_id[transactional_id] = patient
        return late

    def take_all(self) -> list[Waiting]:
        everybody = [*self._ready, *(one for waiting in self._by_id.values() for one in waiting)]
        self._by_id.clear()
        self._ready.clear()
        self._deadlines.clear()
        return everybody

    def next_deadline_ms(self) -> int | None:
        if self._ready:
            return 0
        while self._deadlines and self._deadlines[0][1] not in self._by_id:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

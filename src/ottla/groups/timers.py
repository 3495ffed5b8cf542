"""One heap of deadlines for all sessions and rebalances of a shard.

Nearly every deadline is moved into the future before it comes: a heartbeat does that. So a later deadline is only
noted in its timer, and the heap is left alone: when the old entry comes up, it is queued again for what the timer
then says. A heartbeat costs two stores, whatever the number of members; each member costs the heap one step per
session time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from ottla.groups.effects import Effects

HEAP_SLACK = 64
"""Entries that may be stale before the heap is worth cleaning."""


class Timer:
    """One deadline and what to do when it comes. Reused for the life of what it watches."""

    __slots__ = ("deadline_ms", "on_time", "queued_ms")

    def __init__(self, on_time: Callable[[int, Effects], None]) -> None:
        self.on_time = on_time
        self.deadline_ms: int | None = None
        """None: not set."""
        self.queued_ms: int | None = None
        """The time of its entry in the heap: never after the deadline. None: it has none."""


class Timers:
    """The deadlines of one shard."""

    __slots__ = ("_heap", "_live", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = 0
        self._live = 0

    def set(self, timer: Timer, deadline_ms: int) -> None:
        if timer.deadline_ms is None:
            self._live += 1
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._queue(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        if timer.deadline_ms is not None:
            timer.deadline_ms = None
            self._live -= 1
            self._drop_stale_entries()

    def discard(self, timer: Timer) -> None:
        """Cancel it for good. What it would have done is let go of too, since that holds on to what it watched."""
        self.cancel(timer)
        timer.on_time = _nothing

    def next_deadline_ms(self) -> int | None:
        """When `due` should next be called: never too late, and too early at most once per entry."""
        return self._heap[0][0] if self._live else None

    def due(self, now_ms: int) -> Iterator[Timer]:
        """The timers whose time has come, in order. Each is no longer set when it is handed out."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, timer = heappop(self._heap)
            if timer.queued_ms != queued_ms:
                continue  # it was queued again, for an earlier time
            timer.queued_ms = None
            if timer.deadline_ms is None:
                continue
            if timer.deadline_ms > now_ms:
                self._queue(timer, timer.deadline_ms)
                continue
            timer.deadline_ms = None
            self._live -= 1
            yield timer

    def _queue(self, timer: Timer, at_ms: int) -> None:
        self._order += 1  # breaks ties, so that timers of one time fire in the order in which they were set
        timer.queued_ms = at_ms
        heappush(self._heap, (at_ms, self._order, timer))

    def _drop_stale_entries(self) -> None:
        """Members that come and go must not leave the heap full of what they left behind."""
        if len(self._heap) <= 2 * self._live + HEAP_SLACK:
            return
        kept = []
        for queued_ms, order, timer in self._heap:
            if timer.queued_ms != queued_ms:
                continue
            if timer.deadline_ms is None:
                timer.queued_ms = None
            else:
                kept.append((queued_ms, order, timer))
        heapify(kept)
        self._heap = kept


def _nothing(now_ms: int, effects: Effects) -> None:
    """What a discarded timer does."""

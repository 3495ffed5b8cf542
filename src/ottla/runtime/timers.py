"""Many deadlines, one timer of the event loop.

A long poll sets a deadline that nearly always is cancelled, thousands of times a second. A heap entry that is skipped
when its time comes is much cheaper than a timer of the loop's own for each.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

RESOLUTION_S = 0.000_5
"""uvloop's time is in whole milliseconds, and sums of them differ in the last bit: what is due by less than this is due
now. Without it a timer that came a rounding error too early was set again with no delay, over and over, until the next
millisecond: three turns of the loop for every deadline of an idle node."""


class Deadline:
    """A callback at a time. `cancel` makes it a no-op; the entry leaves the heap when its time comes."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Deadline]] = []
        """Tuples, since the interpreter compares those by itself; the number keeps equal times in order."""
        self._count = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = float("inf")

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> Deadline:
        self._count += 1
        at = self._loop.time() + delay_ms / 1000
        deadline = Deadline(action)
        heapq.heappush(self._heap, (at, self._count, deadline))
        if at < self._armed_for:
            self._arm(at)
        return deadline

    def _arm(self, at: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = at
        self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._armed_for = float("inf")
        due, newest = self._loop.time() + RESOLUTION_S, self._count
        heap = self._heap
        while heap and heap[0][0] <= due and heap[0][1] <= newest:  # what is set meanwhile waits for its own turn
            action = heapq.heappop(heap)[2].action
            if action is not None:
                action()
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        if heap and heap[0][0] < self._armed_for:
            self._arm(heap[0][0])

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._heap.clear()

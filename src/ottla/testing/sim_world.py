"""Virtual time: one queue of everything that is going to happen, in all processes of a simulation.

Time stands still while something can run and jumps to the next event when nothing can, so an hour takes as long as the
work in it. What happens at the same moment happens in the order in which it was asked for; all chance comes from
generators that are derived from one seed, each for one purpose, so that a draw more in one place changes nothing in
another. The same seed gives the same history, which the digest of the trace proves.
"""

from __future__ import annotations

import hashlib
import heapq
import traceback
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

DETAILS_KEPT = 400


class Trace:
    """What happened, line by line: events to read, the last details of bytes and disks, and a digest of everything."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.details: deque[str] = deque(maxlen=DETAILS_KEPT)
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, line: str, *, is_detail: bool) -> None:
        (self.details if is_detail else self.story).append(line)
        self.count += 1
        self._hash.update(line.encode())

    def remark(self, line: str) -> None:
        """For whoever reads the story; not a part of what has to be the same in every run."""
        self.story.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self, lines: int) -> str:
        """The last of the story, and of the details."""
        return "\n".join(["...", *self.story[-lines:], "in detail:", *list(self.details)[-lines // 2 :]])


class World:
    """The time, the queue of events, the dice and the trace that everything in a simulation shares."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        """Seconds since the simulation began."""
        self.who = "-"
        """The machine whose process runs."""
        self.trace = Trace()
        self.failures: list[str] = []
        """What must never happen in any process: exceptions that nobody handled."""
        self._events: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0

    def dice(self, purpose: str) -> Random:
        """A generator of its own for one purpose."""
        return Random(f"{self.seed}/{purpose}")

    def note(self, who: str, what: str) -> None:
        self.trace.add(f"{self.now:10.4f}  {who:<10} {what}", is_detail=False)

    def note_detail(self, who: str, what: str) -> None:
        self.trace.add(f"{self.now:10.4f}  {who:<10} {what}", is_detail=True)

    def fail(self, who: str, what: str, error: BaseException | None) -> None:
        """Something happened that must never happen."""
        self.failures.append(f"{who}: {what}: {error!r}")
        self.note(who, f"UNHANDLED {what}: {error!r}")
        if error is not None:
            self.trace.remark("".join(traceback.format_exception(error)))

    def at(self, when: float, action: Callable[..., Any], *args: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, action, args))

    def after(self, delay_s: float, action: Callable[..., Any], *args: Any) -> None:
        self.at(self.now + delay_s, action, *args)

    def run_until(self, done: Callable[[], bool], *, deadline: float) -> bool:
        """Let things happen until `done`; False if that is not so at the time `deadline`."""
        events = self._events
        while not done():
            if not events or events[0][0] > deadline:
                self.now = deadline
                return done()
            self.now, _, action, args = heapq.heappop(events)
            action(*args)
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, deadline=self.now + seconds)

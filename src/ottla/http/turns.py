"""Long work in the event loop, in turns that are short: the node's clients wait for each of them."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_S = 0.003
"""Of its own work: a goal says that a scrape stalls the loop for 5 ms at most. Not shorter, since each turn waits for
those of all others, and under full load these are as long."""


class Turns:
    """`if turns.is_over: await turns.end()`, wherever some work is done."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + TURN_S

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._until

    async def end(self) -> None:
        """It goes on when everybody else had their turn."""
        await asyncio.sleep(0)
        self._until = perf_counter() + TURN_S

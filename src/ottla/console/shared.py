"""One poll for everybody who looks, and none when nobody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ottla.console.source import EXPECTED, sentence

T = TypeVar("T")
log = logging.getLogger(__name__)

REST_FACTOR = 3
"""Asking takes at most a quarter of the time: a large or a slow cluster is asked less often."""


class Shared(Generic[T]):
    """`latest` and `problem` are what the last look brought; listeners are called after each."""

    def __init__(
        self, load: Callable[[], Awaitable[T]], *, every_s: float, on_idle: Callable[[], None] | None = None
    ) -> None:
        self._load = load
        self._every_s = every_s
        self._on_idle = on_idle
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self.latest: T | None = None
        self.problem: str | None = None

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the result to end it."""
        self._listeners.append(listener)
        if self.latest is not None:
            listener()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll())

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None
                if self._on_idle is not None:
                    self._on_idle()

        return end

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self._look()
            await asyncio.sleep(max(self._every_s, REST_FACTOR * (loop.time() - began)))

    async def _look(self) -> None:
        try:
            self.latest = await self._load()
            self.problem = None
        except EXPECTED as error:
            self.problem = sentence(error)
        except Exception as error:
            log.exception("a look at the cluster failed")
            self.problem = f"The console failed: {sentence(error)}"
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:
                log.exception("a page could not be brought up to date")

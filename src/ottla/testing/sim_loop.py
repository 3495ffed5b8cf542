"""The event loop of one simulated process: asyncio's own, on virtual time and a simulated network.

Each process has a loop to itself, so that one can be killed and everything it was about to do dies with it: its
callbacks never run, its tasks are never told. Within a loop callbacks run in the order in which they were scheduled,
which is what asyncio promises.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextvars import Context

    from ottla.testing.sim_network import Network
    from ottla.testing.sim_world import World

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ProcessKilledError(BaseException):
    """Raised where a process is killed in the middle of its work, to leave it. No code of the process may handle it."""


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, world: World, network: Network, host: str) -> None:
        super().__init__()
        self.world = world
        self.network = network
        self.host = host
        self.is_alive = True
        self.handover_s = 0.0
        """While a thread of the process is at work: how long it takes until the loop hears of what it did."""
        self._born: list[asyncio.Task[Any]] = []

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.world.now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.is_alive:
            self.world.at(self.world.now, self._run, handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self.handover_s:
            return self.call_later(self.handover_s, callback, *args, context=context)
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if self.is_alive:
            self.world.at(when, self._run, timer)
        return timer

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._born = [other for other in self._born if not other.done()] if len(self._born) > 64 else self._born
        self._born.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """At once: nothing that ships uses the loop's own executor for what takes long."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **kwargs: Any
    ) -> Any:
        return self.network.listen(self, protocol_factory, *args, **kwargs)

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *args: Any, **kwargs: Any
    ) -> Any:
        return await self.network.connect(self, protocol_factory, *args, **kwargs)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """In a process that lives, an exception that nobody handled is a bug."""
        error = context.get("exception")
        if self.is_alive and not isinstance(error, ProcessKilledError):
            failure = f"{self.host}: {context.get('message')}: {error!r}"
            self.world.failures.append(failure)
            self.world.note(self.host, f"UNHANDLED {failure}")

    # Running and dying.

    def _run(self, handle: asyncio.Handle) -> None:
        if not self.is_alive or handle.cancelled():
            return
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)

    def kill(self) -> None:
        """The process is gone: nothing of it runs any more."""
        if self.is_alive:
            self.is_alive = False
            self.world.at(self.world.now, self._bury)

    def _bury(self) -> None:
        """Close what the tasks were doing, so that the interpreter does not complain of it later."""
        for task in self._born:
            if task.done():
                task.exception() if not task.cancelled() else None
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
            coroutine = task.get_coro()
            if isinstance(coroutine, Coroutine):
                with suppress(RuntimeError, ProcessKilledError):
                    coroutine.close()
        self._born.clear()
        self.close()

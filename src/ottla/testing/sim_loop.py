"""The event loop of one simulated process: asyncio's own, on virtual time and a simulated network.

Each process has a loop to itself, so that one can be killed and everything it was about to do dies with it: its
callbacks never run, its tasks are never told. Within a loop callbacks run in the order in which they were scheduled,
which is what asyncio promises.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast

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
        self._stalled: list[Callable[[], None]] | None = None
        """While the process is stopped: what would have run, in its order."""
        network.links.number_of(host)

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

    async def create_datagram_endpoint(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        local_addr: tuple[str, int] | str | None = None,
        *_args: Any,
        **_options: Any,
    ) -> Any:
        protocol = cast(asyncio.DatagramProtocol, protocol_factory())
        port = local_addr[1] if isinstance(local_addr, tuple) else 0
        endpoint = self.network.open_mailbox(self, protocol, port)
        await asyncio.sleep(0)
        return endpoint, protocol

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        name = self.network.links.resolve(str(host), asked_by=self.host)
        address = (self.network.links.number_of(name), int(port or 0))
        return [(socket.AF_INET, options.get("type") or socket.SOCK_STREAM, options.get("proto", 0), "", address)]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """In a process that lives, an exception that nobody handled is a bug."""
        error = context.get("exception")
        if self.is_alive and not isinstance(error, ProcessKilledError):
            self.world.fail(self.host, str(context.get("message")), error)

    # Running and dying.

    @property
    def is_stopped(self) -> bool:
        return self._stalled is not None

    def stop_running(self) -> None:
        """SIGSTOP: nothing runs until `go_on`, while time does."""
        if self.is_alive and self._stalled is None:
            self._stalled = []

    def go_on(self) -> None:
        """SIGCONT: what came due meanwhile runs now."""
        stalled, self._stalled = self._stalled, None
        for action in stalled or ():
            self.world.at(self.world.now, action)

    def when_going_on(self, action: Callable[[], None]) -> None:
        """For threads of a process that is stopped."""
        assert self._stalled is not None
        self._stalled.append(action)

    def _run(self, handle: asyncio.Handle) -> None:
        if not self.is_alive or handle.cancelled():
            return
        if self._stalled is not None:
            self._stalled.append(lambda: self._run(handle))
            return
        self.world.who = self.host
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)

    def kill(self) -> None:
        """The process is gone: nothing of it runs any more."""
        if self.is_alive:
            self.is_alive = False
            self._stalled = None
            self.world.at(self.world.now, self._bury)

    def _bury(self) -> None:
        """Close what the tasks were doing, so that the interpreter does not complain of it later.

        What they do last may ask for the loop, and asyncio makes a new one for those who have none.
        """
        events._set_running_loop(self)
        try:
            self._close_tasks()
        finally:
            events._set_running_loop(None)
        self._born.clear()
        self.close()

    def _close_tasks(self) -> None:
        for task in self._born:
            if task.done():
                task.exception() if not task.cancelled() else None
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
            coroutine = task.get_coro()
            if isinstance(coroutine, Coroutine):
                with suppress(RuntimeError, ProcessKilledError):
                    coroutine.close()

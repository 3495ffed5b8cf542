"""Accepts connections, looks after them, and loads the framework when one of them asks for it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import socket
from contextlib import suppress
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from ottla.http.api import Api
from ottla.http.connection import Connection
from ottla.http.edge import Asgi, Edge
from ottla.http.heads import Heads

if TYPE_CHECKING:
    from ottla.http.general import Framework, FrameworkConnection

log = logging.getLogger(__name__)

BACKLOG = 1024
LOOK_EVERY_S = 0.5
GRACEFUL_S = 2.0
"""For requests under way when the node stops; then they are cut off, tails among them."""


class Front(Protocol):
    """What stands in front of the framework: it may serve something of its own, and leaves the rest to it."""

    @property
    def takes_all(self) -> bool:
        """Whether nothing is left: then there are no hot routes either."""

    def __call__(self, api: Api, others: Asgi) -> Asgi: ...

    async def close(self) -> None: ...


class HttpServer:
    def __init__(self, api: Api, front: Front | None = None) -> None:
        self.api = api
        self.config = config = api.config
        self.edge = Edge(config, produce=api.produce, consume=api.consume)
        self.heads = Heads()
        self.loop = asyncio.get_running_loop()
        self.patience_s = config.request_timeout_ms / 1000
        self.idle_s = config.idle_ms_max / 1000
        self._front = front
        self.has_hot_routes = front is None or not front.takes_all
        self.connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._looking: asyncio.TimerHandle | None = None
        self._accepting: asyncio.Server | None = None
        self._framework: Framework | None = None
        self._loading: asyncio.Task[None] | None = None
        self._waiting: list[Connection] = []
        """For the framework."""

    async def serve(self, listening: socket.socket) -> None:
        self._accepting = await self.loop.create_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)

    # Connections call these.

    def opened(self, connection: Connection) -> bool:
        """False if there are too many."""
        self.connections.add(connection)
        self._all_gone.clear()
        if self._looking is None:
            self._looking = self.loop.call_later(LOOK_EVERY_S, self._look)
        return len(self.connections) <= self.config.connections_max

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._all_gone.set()

    def _look(self) -> None:
        now = monotonic()
        for connection in tuple(self.connections):
            connection.look(now)
        self._looking = self.loop.call_later(LOOK_EVERY_S, self._look) if self.connections else None

    # The framework.

    def new_general(self, connection: Connection) -> FrameworkConnection | None:
        """None while it is not loaded."""
        return None if self._framework is None else self._framework.serve(connection)

    def load_for(self, connection: Connection) -> None:
        """`connection.loaded` is called when it is."""
        self._waiting.append(connection)
        if self._loading is None:
            self._loading = self.loop.create_task(self._load())

    async def _load(self) -> None:
        try:
            general = await asyncio.to_thread(self._import)
            self._framework = general.Framework(self.edge if self._front is None else self._front(self.api, self.edge))
        except Exception:
            log.exception("the HTTP API can't be served as a whole")
        self._loading = None
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.loaded(well=self._framework is not None)

    def _import(self) -> ModuleType:
        """In a thread: it takes half a second of CPU."""
        general, app = importlib.import_module("ottla.http.general"), importlib.import_module("ottla.http.app")
        self.edge.app = app.build(self.api)
        if gc.get_freeze_count():  # what lives as long as the process is not looked at, here as elsewhere
            gc.collect()
            gc.freeze()
        return general

    # The end.

    async def close(self) -> None:
        """Let what is under way end, but not for long."""
        if self._accepting is not None:
            self._accepting.close()
        if self._looking is not None:
            self._looking.cancel()
        for connection in tuple(self.connections):
            connection.shut_down()
        if self._framework is not None:
            self._framework.shut_down()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACEFUL_S):
                await self._all_gone.wait()
                await asyncio.gather(*self._tasks(), return_exceptions=True)
        for connection in tuple(self.connections):
            connection.abort()
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        tasks = [] if self._framework is None else list(self._framework.state.tasks)
        return tasks if self._loading is None else [*tasks, self._loading]

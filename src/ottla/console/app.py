"""The console as an ASGI application, which may stand in front of another one: NiceGUI, at a path of its own.

NiceGUI is loaded by the first request, in a thread: it takes half a second of CPU, which the event loop does not have.
There is one console in a process, as there is one NiceGUI.
"""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AsyncExitStack
from typing import Any

from ottla.console.guard import forbid, is_allowed, is_loopback
from ottla.http.api import Api
from ottla.http.edge import Asgi, Receive, Scope, Send


class Console:
    """A `Front` of the gateway: serves everything under `path`, and leaves the rest to what else is there."""

    def __init__(self, bootstrap: str, *, path: str, address: str | None) -> None:
        self._bootstrap = bootstrap
        self._path = path.rstrip("/")
        self._loopback_only = address is None or is_loopback(address)
        self._pages: Pages | None = None

    @property
    def takes_all(self) -> bool:
        return not self._path

    def __call__(self, api: Api, others: Asgi) -> Asgi:
        pages = self._pages = Pages(api, self._bootstrap, self._path or "/")
        return Door(pages, others, path=self._path, loopback_only=self._loopback_only)

    async def close(self) -> None:
        if self._pages is not None:
            await self._pages.close()


class Door:
    """Who comes in, and where to."""

    def __init__(self, pages: Asgi, others: Asgi, *, path: str, loopback_only: bool) -> None:
        self._pages = pages
        self._others = others
        self._path = path
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if self._path and path != self._path and not path.startswith(self._path + "/"):
            await self._others(scope, receive, send)
        elif not is_allowed(scope, loopback_only=self._loopback_only):
            await forbid(scope, send)
        else:
            await self._pages(scope, receive, send)


class Pages:
    """NiceGUI, from the first request on."""

    def __init__(self, api: Api, bootstrap: str, path: str) -> None:
        self._api = api
        self._bootstrap = bootstrap
        self._path = path
        self._starting: asyncio.Task[Asgi] | None = None
        self._running = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        app = await asyncio.shield(self._starting)
        await app(scope, receive, send)

    async def _start(self) -> Asgi:
        mounted: Any = await asyncio.to_thread(importlib.import_module, "ottla.console.mounted")
        app = mounted.build(self._api, self._bootstrap, self._path)
        await self._running.enter_async_context(app.router.lifespan_context(app))
        pages: Asgi = app
        return pages

    async def close(self) -> None:
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._running.aclose()

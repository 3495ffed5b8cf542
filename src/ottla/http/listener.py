"""The port of the HTTP API: taken when the node has started, served from the first connection on.

Until somebody asks there is only a listening socket. Its first connection waits in the backlog while a thread loads
what the hot routes need, which is little; the framework, with its half second of CPU, is loaded by the first request
for anything else.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import PortTakenError

if TYPE_CHECKING:
    from ottla.http.server import HttpServer

log = logging.getLogger(__name__)

BACKLOG = 1024
LOOPBACK = "127.0.0.1"


class HttpListener:
    def __init__(self, build: Callable[[], HttpServer]) -> None:
        """`build` is called once, in the loop, after the first connection and `_warm_up`."""
        self._build = build
        self._socket: socket.socket | None = None
        self._loading: asyncio.Task[None] | None = None
        self.server: HttpServer | None = None
        """From the first connection on."""
        self.port = 0

    def bind(self, address: str | None, port: int) -> None:
        host = address or LOOPBACK
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(BACKLOG)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                raise PortTakenError(f"port {port} on {host} is taken by another process") from error
            raise PortTakenError(f"can't listen on {host}, port {port}: {error.strerror or error}") from error
        self._socket = listening
        self.port = listening.getsockname()[1]

    def serve(self) -> None:
        """From the first connection on."""
        loop = asyncio.get_running_loop()
        if self._socket is not None:
            loop.add_reader(self._socket, self._first_connection)

    def _first_connection(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)  # type: ignore[arg-type]  # there is one, or nobody had connected to it
        self._loading = loop.create_task(self._load())

    async def _load(self) -> None:
        assert self._socket is not None
        try:
            await asyncio.to_thread(_warm_up)
            self.server = self._build()
            await self.server.serve(self._socket)
        except Exception:
            log.exception("the HTTP API can't be served")

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        if self._socket is None:
            return
        if self._loading is None:
            loop.remove_reader(self._socket)
        elif self.server is not None:
            await self.server.close()
        else:
            self._loading.cancel()
        self._socket.close()


def _warm_up() -> None:
    importlib.import_module("ottla.http.server")

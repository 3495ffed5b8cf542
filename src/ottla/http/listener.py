"""The port of the HTTP API: taken when the node has started, served from the first connection on.

FastAPI takes half a second of CPU to load, and 27 MB. Neither is spent before somebody asks: until then there is only a
listening socket, whose first connection waits in the backlog while a thread loads the rest.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.errors import PortTakenError

log = logging.getLogger(__name__)

BACKLOG = 1024
LOOPBACK = "127.0.0.1"
GRACEFUL_S = 2
"""For requests under way when the node stops; then they are cut off, tails among them."""


class HttpListener:
    def __init__(self, build: Callable[[], Any]) -> None:
        """`build` imports and makes the ASGI application; it is called once, in the loop, after `warm_up`."""
        self._build = build
        self._socket: socket.socket | None = None
        self._loading: asyncio.Task[None] | None = None
        self._server: Any = None
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
        try:
            await asyncio.to_thread(_warm_up)
            server = self._server = _new_server(self._build())
            await server.serve(sockets=[self._socket])
        except Exception:
            log.exception("the HTTP API can't be served")

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        if self._socket is None:
            return
        if self._loading is None:
            loop.remove_reader(self._socket)
        elif self._server is not None:
            self._server.should_exit = True
            await self._loading
        else:
            self._loading.cancel()
        self._socket.close()


def _warm_up() -> None:
    for name in ("uvicorn", "uvicorn.protocols.http.httptools_impl", "ottla.http.app"):
        importlib.import_module(name)


def _new_server(app: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the node's business, which stops this server too."""
            yield

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its comings and goings are the node's
    config = uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACEFUL_S,
        backlog=BACKLOG,
    )
    return Server(config)

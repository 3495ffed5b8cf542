"""The listening side: accepts connections, bounds their number, and closes those that have gone silent."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.config import NetworkConfig
from ottla.errors import ErrorCode, PortTakenError
from ottla.ports import Clock
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.schema import Response
from ottla.runtime.connection import NODE_STOPS, SCRATCH_BYTES, Connection
from ottla.runtime.dispatch import Router
from ottla.runtime.outbox import Outbox
from ottla.runtime.pacing import is_paced
from ottla.runtime.timers import Timers

log = logging.getLogger(__name__)

LISTEN_BACKLOG = 1024


class Traffic(NamedTuple):
    """What connections have carried since the node was started."""

    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0

    def with_that_of(self, connections: Iterable[Connection]) -> Traffic:
        bytes_in, bytes_out, requests = self
        for connection in connections:
            bytes_in += connection.bytes_in
            bytes_out += connection.bytes_out
            requests += connection.requests
        return Traffic(bytes_in, bytes_out, requests)


class Server:
    """All connections of one node, and what they share."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: NetworkConfig,
        clock: Clock,
        timers: Timers,
        router: Router,
        outbox: Outbox,
        services: Any,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.clock = clock
        self.timers = timers
        self.router = router
        self.outbox = outbox
        self.services = services
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.connections: dict[Connection, None] = {}
        """In the order in which they were opened."""
        self.unsent_bytes = 0
        """Answers that slow clients have not taken yet, over all connections."""
        self.protocol_errors = 0
        self.is_paced = False
        """Whether the system paces what is sent on new connections."""
        self._traffic_of_closed = Traffic()
        self._listener: asyncio.Server | None = None
        self._serves_no_more = False

    async def bind(self, address: str, port: int) -> int:
        """Take the port, without serving yet. Returns the port: the one asked for, or a free one for 0."""
        try:
            self._listener = await self.loop.create_server(
                lambda: Connection(self), address, port, backlog=LISTEN_BACKLOG, start_serving=False
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTakenError(f"port {port} on {address} is taken by another process") from error
            raise PortTakenError(f"can't listen on {address}, port {port}: {error.strerror or error}") from error
        listening = self._listener.sockets[0]
        self.is_paced = is_paced(listening)
        bound: int = listening.getsockname()[1]
        return bound

    async def serve(self) -> None:
        if self._listener is not None:
            await self._listener.start_serving()
        self.timers.after_ms(self._idle_check_ms(), self._close_idle)

    def opened(self, connection: Connection) -> None:
        self.connections[connection] = None
        if self._serves_no_more:
            connection.hang_up()
        elif len(self.connections) > self.limits.connections_max:
            connection.close(f"{self.limits.connections_max} connections are open already")

    def closed(self, connection: Connection) -> None:
        self.unsent_bytes -= connection.unsent_bytes
        connection.unsent_bytes = 0
        if connection in self.connections:
            del self.connections[connection]
            self._traffic_of_closed = self._traffic_of_closed.with_that_of([connection])

    def traffic(self) -> Traffic:
        """Connections count by themselves, since a request has no time for more; it is put together when asked for."""
        return self._traffic_of_closed.with_that_of(self.connections)

    def unsupported_api_versions(self) -> Response:
        key = ApiVersionsRequest.api_key
        low, high = ApiVersionsRequest.versions
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high)],
        )

    def _idle_check_ms(self) -> float:
        return max(1_000, self.limits.connection_idle_ms / 10)

    def _close_idle(self) -> None:
        now = self.loop.time()
        silent_for = self.limits.connection_idle_ms / 1000
        for connection in tuple(self.connections):
            if connection.bytes_in != connection.bytes_seen or connection.line:
                connection.bytes_seen = connection.bytes_in
                connection.silent_since = now
            elif now - connection.silent_since >= silent_for:
                connection.close("it was silent for too long")
        self.timers.after_ms(self._idle_check_ms(), self._close_idle)

    def drop_in_child(self) -> None:
        """In a process that was forked from this one: give up the copies of its sockets, and do nothing else to them.

        Otherwise the port stays taken, and clients see no end of their connections, until the child ends too.
        """
        listening = () if self._listener is None else self._listener.sockets
        for held in (*listening, *(connection.socket for connection in self.connections)):
            os.close(held.fileno())

    def serve_no_more(self) -> None:
        """Listen to nobody and read nothing. What waits for its answer can still be answered."""
        self._serves_no_more = True
        if self._listener is not None:
            self._listener.close()
        for connection in self.connections:
            connection.hold(NODE_STOPS)

    async def close(self) -> None:
        """Stop listening and hang up. What was answered has been written; what waits is not answered any more."""
        self.serve_no_more()
        for connection in tuple(self.connections):
            connection.hang_up()
        if self._listener is not None:
            await self._listener.wait_closed()

"""One client's connection: frames in, answers out in the same order, with bounds on both sides.

Reading. All connections share one scratch buffer, since only one of them is being read at a time: an idle connection
costs no buffer at all. Frames that are complete in the scratch are served from it without a copy. A frame that is not
complete moves into a buffer of the connection's own, which grows as bytes really arrive, whatever length the client
announced.

Serving. A request is decoded and handled inside the read callback: no task, no queue. An answer that has to wait (for a
commit, for records, for a group) holds a place in line, so that answers leave in the order of their requests.

Holding back. A connection is not read while too many of its answers wait, while the client does not take what was
written, or while a quota says so.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from ottla.errors import BrokerError, ProtocolError
from ottla.protocol.framing import skip_tagged_fields
from ottla.runtime.dispatch import Chunk, Route, server_error
from ottla.services import Deferred, RequestContext

if TYPE_CHECKING:
    from ottla.runtime.server import Server

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
GROWTH_BYTES_MIN = 64 * 1024
JOIN_BYTES_MAX = 32 * 1024
"""Answers up to this size are joined into one buffer: cheaper than many small pieces in a writev."""

FRAME_SIZE = struct.Struct(">i")
REQUEST_HEADER = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""
REQUEST_HEADER_BYTES_MIN = 8
CLIENT_ID_AT = REQUEST_HEADER.size
RESPONSE_HEADER = struct.Struct(">ii")
FLEXIBLE_RESPONSE_HEADER = struct.Struct(">iiB")


# Why a connection is not read: bits of `Connection.held`. Plain numbers: an IntFlag costs a microsecond a request.
NOT_HELD = 0
ANSWERS_WAIT = 1
CLIENT_IS_SLOW = 2
QUOTA = 4
CLOSING = 8


class Place:
    """An answer's place in line."""

    __slots__ = ("answer", "connection", "correlation_id", "deferred", "ready", "route")

    def __init__(self, connection: Connection, route: Route, correlation_id: int) -> None:
        self.deferred: Deferred[Any] | None = None
        self.connection = connection
        self.route = route
        self.correlation_id = correlation_id
        self.answer: Any = None
        self.ready = False

    def on_done(self, deferred: Deferred[Any]) -> None:
        self.ready = True
        self.answer = deferred.value if deferred.error is None else self.route.failure(deferred.error)
        connection = self.connection
        if connection.line and connection.line[0] is self:
            connection.advance_line()


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_client_id_bytes",
        "_filled",
        "_own",
        "_server",
        "_transport",
        "context",
        "held",
        "last_read_at",
        "line",
        "unsent_bytes",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: bytearray | None = None
        """Bytes of frames that are not complete, or that wait while the connection is held."""
        self._filled = 0
        self._client_id_bytes: bytes | None = None
        self.line: deque[Place] = deque()
        self.held = NOT_HELD
        self.last_read_at = 0.0
        self.unsent_bytes = 0
        """What was written and not taken, counted while the client is slow."""

    @property
    def buffered_bytes(self) -> int:
        """What has arrived and is not served yet."""
        return self._filled

    @property
    def buffer_bytes(self) -> int:
        """The memory that is held for it."""
        return 0 if self._own is None else len(self._own)

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._server.limits.send_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        self.context = RequestContext(self._server.services, peer[0] if peer else "")
        self.last_read_at = self._server.loop.time()
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.held |= CLOSING
        self._server.closed(self)
        for place in self.line:
            if place.deferred is not None:
                place.deferred.abandon()
        self.line.clear()
        self._own = None

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self._own
        if own is None:
            return self._server.scratch
        if self._filled == len(own):
            own = self._grow(own)
        return memoryview(own)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.last_read_at = self._server.loop.time()
        self._filled += nbytes
        try:
            if self._own is None:
                self._serve(self._server.scratch, self._filled)
            else:
                self._serve_own()
        except ProtocolError as error:
            self.close(str(error))

    def pause_writing(self) -> None:
        self.unsent_bytes = self._transport.get_write_buffer_size()
        self._server.unsent_bytes += self.unsent_bytes
        self.hold(CLIENT_IS_SLOW)

    def resume_writing(self) -> None:
        self._server.unsent_bytes -= self.unsent_bytes
        self.unsent_bytes = 0
        self.release(CLIENT_IS_SLOW)

    # Reading.

    def _grow(self, own: bytearray) -> bytearray:
        """Room for the rest of the frame, or for twice what has come so far if that is less."""
        wanted = FRAME_SIZE.size
        if self._filled >= FRAME_SIZE.size:
            wanted += FRAME_SIZE.unpack_from(own)[0]
        room = min(wanted, max(GROWTH_BYTES_MIN, 2 * self._filled))
        grown = bytearray(room)
        grown[: self._filled] = memoryview(own)[: self._filled]
        self._own = grown
        return grown

    def _serve_own(self) -> None:
        own = self._own
        if own is None or self.held:
            return
        if self._filled >= FRAME_SIZE.size and self._filled < FRAME_SIZE.size + self._frame_size(own, 0):
            return
        self._own = None
        self._serve(memoryview(own), self._filled)

    def _serve(self, view: memoryview, filled: int) -> None:
        """Serve the complete frames in `view[:filled]` and keep what is left."""
        at = 0
        while filled - at >= 4 and not self.held:
            end = at + 4 + self._frame_size(view, at)
            if end > filled:
                break
            self._serve_frame(view[at + 4 : end])
            at = end
        self._filled = filled - at
        self._own = bytearray(view[at:filled]) if self._filled else None

    def _frame_size(self, buffer: memoryview | bytearray, at: int) -> int:
        size: int = FRAME_SIZE.unpack_from(buffer, at)[0]
        if not REQUEST_HEADER_BYTES_MIN <= size <= self._server.limits.frame_size_bytes_max:
            raise ProtocolError(f"a frame of {size} bytes is not between {REQUEST_HEADER_BYTES_MIN} and the limit")
        return size

    # Serving.

    def _serve_frame(self, frame: memoryview) -> None:
        if len(frame) < CLIENT_ID_AT:
            raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
        api_key, api_version, correlation_id, client_id_size = REQUEST_HEADER.unpack_from(frame)
        router = self._server.router
        try:
            route = router.route(api_key, api_version)
        except ProtocolError:
            if api_key != 18:
                raise
            self._answer(router.unsupported_version_route(), correlation_id, self._server.unsupported_api_versions())
            return
        body_at = CLIENT_ID_AT + client_id_size if client_id_size > 0 else CLIENT_ID_AT
        context = self.context
        if client_id_size >= 0:
            client_id = bytes(frame[CLIENT_ID_AT:body_at])
            if client_id != self._client_id_bytes:
                self._client_id_bytes = client_id
                context.client_id = client_id.decode("utf-8", "replace")
        if route.flexible_request:
            body_at = skip_tagged_fields(frame, body_at)
        request, _ = route.decode(frame, body_at)  # bytes that are left over are let pass: librdkafka sends some
        context.api_version = api_version
        context.now_ms = self._server.clock.now_ms()
        try:
            answer = route.handler(request, context)
        except BrokerError as error:
            answer = self._failure(route, error)
        except ProtocolError:
            raise
        except Exception as error:
            answer = self._failure(route, server_error(route, error))
        if answer is None:
            return
        if isinstance(answer, Deferred):
            place = Place(self, route, correlation_id)
            place.deferred = answer
            self.line.append(place)
            answer.on_done(place.on_done)
            if len(self.line) >= self._server.limits.requests_queued_max:
                self.hold(ANSWERS_WAIT)
        elif self.line:
            place = Place(self, route, correlation_id)
            place.answer, place.ready = answer, True
            self.line.append(place)
        else:
            self._answer(route, correlation_id, answer)

    def _failure(self, route: Route, error: BrokerError) -> Any:
        answer = route.failure(error)
        if answer is None:
            raise ProtocolError(f"{route.request.__name__} failed ({error}), and its answer has no place to say so")
        return answer

    # Answering.

    def advance_line(self) -> None:
        """Send the answers at the head of the line that are ready."""
        line = self.line
        while line and line[0].ready:
            place = line.popleft()
            if place.answer is None:
                self.close(f"{place.route.request.__name__} failed, and its answer has no place to say so")
                return
            self._answer(place.route, place.correlation_id, place.answer)
        if self.held & ANSWERS_WAIT and len(line) <= self._server.limits.requests_queued_max // 2:
            self.release(ANSWERS_WAIT)

    def _answer(self, route: Route, correlation_id: int, answer: Any) -> None:
        if self.held & CLOSING:
            return
        out: list[Chunk] = [b""]
        route.encode(answer, out)
        size = sum(map(len, out))
        if route.flexible_response:
            out[0] = FLEXIBLE_RESPONSE_HEADER.pack(size + 5, correlation_id, 0)
        else:
            out[0] = RESPONSE_HEADER.pack(size + 4, correlation_id)
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.hold(QUOTA)
            self._server.timers.after_ms(throttle_ms, lambda: self.release(QUOTA))

    # Holding back.

    def hold(self, reason: int) -> None:
        if not self.held:
            self._transport.pause_reading()
        self.held |= reason

    def release(self, reason: int) -> None:
        if not self.held & reason:
            return
        self.held &= ~reason
        if self.held:
            return
        try:
            self._serve_own()
        except ProtocolError as error:
            self.close(str(error))
        if not self.held:
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """Close in good order: what was written still leaves."""
        self.held |= CLOSING
        self._transport.close()

    def close(self, why: str) -> None:
        """Hang up on a client that broke the protocol, and say so in the log."""
        if self.held & CLOSING:
            return
        log.warning("closing the connection from %s: %s", self.context.client_host, why)
        self.held |= CLOSING
        self._server.protocol_errors += 1
        self._transport.abort()

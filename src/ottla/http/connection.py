"""One HTTP connection: the hot routes are served here, and everything else is passed on to the framework's server.

Writing one message takes the node some 20 µs; a task, an ASGI conversation and a framework would take four times as
much again. So a produce request is read, handled and answered from the loop's callbacks: the answer leaves in the turn
in which the commit ends, as it does on a Kafka connection. Consuming costs by the message, and has a task. So have
health and metrics, which are served here since a node that is only probed and scraped need not load the framework.

    IDLE ─ HEAD ─ BODY ─ SERVING ─ IDLE     a request to a hot route
    IDLE ─ HEAD ─ GENERAL ─ IDLE            any other: its bytes go to the framework's server until it has answered
    any ─ CLOSING                           what is still sent to us is thrown away, so that the answer is not

Requests of one connection are served one after the other. What it may cost to be slow is bounded: the server looks at
every connection now and then (`look`), which is cheaper than a timer for each request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ottla.errors import BrokerError, ErrorCode
from ottla.http.edge import JSON, encode, extra_headers, timed_out, unexpected
from ottla.http.errors import TIMED_OUT, TOO_LARGE, TOO_MANY, UNAVAILABLE, HttpError, of_broker
from ottla.http.heads import CONSUME, HEALTH, PRODUCE, STREAM, Fields, Line
from ottla.http.produce import Attempt
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.http.server import HttpServer

log = logging.getLogger(__name__)

IDLE: Final = 0
HEAD: Final = 1
BODY: Final = 2
SERVING: Final = 3
GENERAL: Final = 4
CLOSING: Final = 5

HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
HEAD_BYTES_MAX = 64 * 1024
WAITING_BYTES_MAX = 64 * 1024
"""Of requests that came before the one at hand is answered."""
JOIN_BYTES_MAX = 32 * 1024
HEAD_TOO_LARGE = 431
LINGER_S = 2.0
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_STARTS = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: ".encode()
    for status in HTTPStatus
    if status >= HTTPStatus.OK
}


class General(Protocol):
    """The framework's side of one connection."""

    def connection_made(self, transport: asyncio.Transport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def shutdown(self) -> None: ...
    @property
    def is_idle(self) -> bool: ...


class Connection(asyncio.Protocol):
    __slots__ = (
        "_attempt",
        "_buffer",
        "_general",
        "_held",
        "_is_stream",
        "_keeps_alive",
        "_produced",
        "_server",
        "_since",
        "_state",
        "_task",
        "_transport",
        "_unsent",
        "_unsent_since",
        "_waiting",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._state = IDLE
        self._since = monotonic()
        """When this state began."""
        self._buffer = bytearray()
        """What has come and belongs to nothing yet, or to a body that is not complete."""
        self._waiting: tuple[Line, Fields] | None = None
        """The request whose body is not complete."""
        self._attempt: Attempt | None = None
        self._task: asyncio.Task[None] | None = None
        self._general: General | None = None
        self._is_stream = False
        self._keeps_alive = True
        self._held = False
        """Not read at the moment."""
        self._unsent = 0
        self._unsent_since: float | None = None
        """Since when the client has taken nothing of what it was sent."""
        self._produced = self._on_produced

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.opened(self):
            message = f"{self._server.config.connections_max} connections are open already; try again in a moment."
            self._refuse(HttpError(TOO_MANY, "too_many_connections", message))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._state == SERVING:
            self._server.edge.requests -= 1
            if self._attempt is not None:
                self._attempt.answer.abandon()
            if self._task is not None:
                self._task.cancel()
        self._state = CLOSING
        self._server.closed(self)
        self._buffer.clear()
        if self._general is not None:
            self._general.connection_lost(exc)
            self._general = None

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state == IDLE:
            self._begin(data)
        elif state == GENERAL and self._general is not None:
            self._general.data_received(data)
        elif state != CLOSING:
            self._buffer += data
            if state == BODY:
                self._go_on()
            elif state == HEAD:
                self._next()
            elif len(self._buffer) > WAITING_BYTES_MAX:
                self._hold()

    def pause_writing(self) -> None:
        self._unsent, self._unsent_since = self._transport.get_write_buffer_size(), monotonic()
        if self._general is not None:
            self._general.pause_writing()

    def resume_writing(self) -> None:
        self._unsent_since = None
        if self._general is not None:
            self._general.resume_writing()

    # Reading.

    def _begin(self, data: bytes) -> None:
        """`data` is all that has come since the last request."""
        end = data.find(HEAD_END)
        if end < 0:
            self._wait_for_head(data)
            return
        start = data.find(LINE_END)
        heads = self._server.heads
        line, fields = heads.line(data[:start]), heads.fields(data[start:end])
        if fields.length > self._server.config.body_bytes_max:
            limit = self._server.config.body_bytes_max
            self._refuse(HttpError(TOO_LARGE, "body_too_large", f"The body is larger than {limit} bytes, the most."))
        elif line.kind < PRODUCE or not fields.is_plain or not self._server.has_hot_routes:
            self._is_stream = line.kind == STREAM
            self._pass_on(data)
        else:
            self._take_body(line, fields, data, end + len(HEAD_END))

    def _wait_for_head(self, data: bytes) -> None:
        if not data[:1].isalpha():
            self._pass_on(data)  # this is no request: httptools says so, unless it is an empty line before one
            return
        if len(data) > HEAD_BYTES_MAX:
            message = f"The request's head is longer than {HEAD_BYTES_MAX} bytes, which is the most."
            self._refuse(HttpError(HEAD_TOO_LARGE, "head_too_large", message))
            return
        if self._state == IDLE:
            self._enter(HEAD)
        self._buffer[:] = data

    def _take_body(self, line: Line, fields: Fields, data: bytes, at: int) -> None:
        end = at + fields.length
        if len(data) < end:
            self._waiting = (line, fields)
            self._buffer[:] = data[at:]
            self._enter(BODY)
            return
        if len(data) > end:
            self._buffer[:] = data[end:]
        self._serve(line, fields, data[at:end])

    def _go_on(self) -> None:
        """With the body."""
        assert self._waiting is not None
        line, fields = self._waiting
        if len(self._buffer) >= fields.length:
            body = bytes(self._buffer[: fields.length])
            del self._buffer[: fields.length]
            self._waiting = None
            self._serve(line, fields, body)

    def _next(self) -> None:
        """With what is in the buffer."""
        if self._state <= HEAD and self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            self._begin(data)

    def _hold(self) -> None:
        if not self._held and not self._transport.is_closing():
            self._held = True
            self._transport.pause_reading()

    def _release(self) -> None:
        if self._held and not self._transport.is_closing():
            self._held = False
            self._transport.resume_reading()

    def _enter(self, state: int) -> None:
        self._state = state
        self._since = monotonic()

    # The framework's side.

    def _pass_on(self, data: bytes) -> None:
        self._enter(GENERAL)
        general = self._general
        if general is None:
            general = self._server.new_general(self)
            if general is None:
                self._buffer[:] = data
                self._hold()
                self._server.load_for(self)
                return
            self._general = general
            general.connection_made(self._transport)
        general.data_received(data)

    def loaded(self, *, well: bool) -> None:
        """The framework is there, or can't be loaded."""
        if self._state != GENERAL:
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        self._release()
        if well:
            self._pass_on(data)
        else:
            self._refuse(unexpected())

    def came_back(self) -> None:
        """The framework has answered all that it was given."""
        if self._state == GENERAL:
            self._enter(IDLE)

    def left(self) -> None:
        """The connection is a WebSocket from now on, and no longer ours."""
        self._state = CLOSING
        self._general = None
        self._server.closed(self)

    # Serving.

    def _serve(self, line: Line, fields: Fields, body: bytes) -> None:
        edge = self._server.edge
        self._keeps_alive = fields.keeps_alive
        refused = edge.refusal()
        self._enter(SERVING)
        edge.requests += 1
        try:
            if refused is not None:
                raise refused
            if line.kind != PRODUCE:
                self._start(self._consume(line) if line.kind == CONSUME else self._probe(line))
                return
            begun = self._server.api.begin_produce(line.topic, body, fields.content_type, line.query)
            if isinstance(begun, Attempt):
                self._attempt = begun
                begun.answer.on_done(self._produced)
            else:
                self._start(self._produce(begun))
        except Exception as error:
            self._fail(error)

    def _on_produced(self, _: Deferred[Any]) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        try:
            told = self._server.api.producing.outcome(attempt)
            if told is None:
                self._start(self._produce(self._server.api.producing.resume(attempt)))
            else:
                self._answer(told[0], encode(told[1]))
        except Exception as error:
            self._fail(error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._server.loop.create_task(work)

    async def _produce(self, work: Coroutine[Any, Any, tuple[int, Any]]) -> None:
        try:
            status, told = await work
            self._answer(status, encode(told))
        except Exception as error:
            self._fail(error)

    async def _consume(self, line: Line) -> None:
        try:
            status, found = await self._server.api.consume(line.topic, line.partition, line.query)
            self._answer(status, encode(found))
        except Exception as error:
            self._fail(error)

    async def _probe(self, line: Line) -> None:
        api = self._server.api
        try:
            async with asyncio.timeout(self._server.patience_s):
                if line.kind == HEALTH:
                    found = await api.health()
                    self._answer(200 if found["ready"] else UNAVAILABLE, encode(found))
                else:
                    self._answer(200, (await api.metrics()).encode(), content_type=METRICS_TYPE)
        except TimeoutError:
            self._fail(timed_out())
        except Exception as error:
            self._fail(error)

    # Answering.

    def _fail(self, error: Exception) -> None:
        told = error if isinstance(error, HttpError) else None
        if isinstance(error, BrokerError):
            told = of_broker(error)
        if told is None:
            log.error("a request to a hot route failed", exc_info=error)
            told = unexpected()
        self._answer(told.status, encode(told.body()), extra_headers(told))

    def _answer(self, status: int, body: bytes, headers: bytes = b"", content_type: bytes = JSON) -> None:
        """To the request that is being served."""
        if self._state != SERVING:
            return
        self._task = None
        self._server.edge.requests -= 1
        self._write(status, body, headers, content_type)
        if not self._keeps_alive:
            self._enter(CLOSING)
            self._transport.close()
            return
        self._enter(IDLE)
        self._release()
        if self._buffer:
            self._server.loop.call_soon(self._next)

    def _write(self, status: int, body: bytes, headers: bytes, content_type: bytes = JSON) -> None:
        self._server.edge.count(status)
        if not self._keeps_alive:
            headers += b"connection: close\r\n"
        head = b"%s%s\r\ncontent-length: %d\r\n%s\r\n" % (_STARTS[status], content_type, len(body), headers)
        if len(body) <= JOIN_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def _refuse(self, error: HttpError) -> None:
        """Answer what is not a whole request, and hang up: slowly, or what is unread would take the answer along."""
        self._keeps_alive = False
        self._buffer.clear()
        self._write(error.status, encode(error.body()), extra_headers(error))
        self._enter(CLOSING)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    # What the server asks for.

    def look(self, now: float) -> None:
        """End what takes too long."""
        patience_s, state_s = self._server.patience_s, now - self._since
        if self._unsent_since is not None and not self._is_stream and self._stands_still(now):
            self._transport.abort()
        elif self._state == IDLE:
            if state_s > self._server.idle_s:
                self._enter(CLOSING)
                self._transport.close()
        elif self._state == CLOSING:
            if state_s > LINGER_S and self._unsent_since is None:
                self._transport.abort()
        elif self._state == SERVING and self._task is not None:
            if state_s > self._server.edge.overall_s:
                self._task.cancel()
                self._fail(timed_out())
        elif state_s > patience_s:
            self._too_slow()

    def _stands_still(self, now: float) -> bool:
        assert self._unsent_since is not None
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return now - self._unsent_since > self._server.patience_s

    def _too_slow(self) -> None:
        seconds = f"{self._server.patience_s:g} s"
        if self._state == HEAD:
            self._refuse(HttpError(TIMED_OUT, "slow_head", f"The request's head did not come within {seconds}."))
        elif self._state == BODY:
            self._refuse(HttpError(TIMED_OUT, "slow_body", f"The body did not come within {seconds}."))
        elif self._state == GENERAL and self._general is not None and self._general.is_idle:
            self._transport.close()  # a head that came with an earlier request, and never ended
        elif self._attempt is not None:
            self._attempt.answer.abandon()
            self._attempt = None
            message = "It was not acknowledged in time: it is not known whether it will last."
            self._fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT, message))

    def shut_down(self) -> None:
        """End when the request under way is answered."""
        if self._state == SERVING:
            self._keeps_alive = False
        elif self._state == GENERAL and self._general is not None:
            self._general.shutdown()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

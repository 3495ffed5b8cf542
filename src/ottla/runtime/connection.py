"""One client's connection: frames in, answers out in the same order, with bounds on both sides.

Reading. All connections share one scratch buffer, since only one of them is being read at a time: an idle connection
costs no buffer at all. Frames that are complete in the scratch are served from it, large ones without a copy. A frame
that is not complete moves into a buffer of the connection's own, which grows as bytes really arrive, whatever length
the client announced. Where all requests are small the loop hands them over as bytes (`small_reads`).

Serving. A request is decoded and handled inside the read callback: no task, no queue. An answer that has to wait (for a
commit, for records, for a group) holds a place in line, so that answers leave in the order of their requests. Those of
producers that repeat themselves are ready from the start; the commit hands them over (`complete`), and they leave with
the others of the commit if the connection waits for more than one.

Holding back. A connection is not read while too many of its answers wait, while the client does not take what was
written, or while a quota says so.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ottla.errors import BrokerError, ProtocolError
from ottla.handlers.registry import NOT_TAKEN
from ottla.ports import Bytes
from ottla.protocol.framing import (
    CLIENT_AT,
    FLEXIBLE_RESPONSE_HEADER,
    FRAME_SIZE,
    RESPONSE_HEADER,
    skip_tagged_fields,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.schema import Response
from ottla.runtime.disk import FileStretch
from ottla.runtime.dispatch import Chunk, Route, server_error
from ottla.runtime.large_answers import LargeAnswers
from ottla.runtime.pacing import unpace_local
from ottla.runtime.small_reads import SMALL_BYTES_MAX, SMALL_READS_MIN, SmallReads
from ottla.services import WITH_COMMIT, Deferred, RequestContext

if TYPE_CHECKING:
    from ottla.runtime.server import Server

log = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
GROWTH_BYTES_MIN = 64 * 1024
JOIN_BYTES_MAX = 32 * 1024
"""Answers up to this size are joined into one buffer: cheaper than many small pieces in a writev."""

FRAME_START = struct.Struct(">iiih")
"""The frame's size, then of the request: API key and version as one number, correlation id, length of the client id."""
_unpack_start: Final[Callable[..., tuple[int, int, int, int]]] = FRAME_START.unpack_from
_join_api = struct.Struct(">i").pack
_split_api = struct.Struct(">hh").unpack
CLIENT_ID_AT = FRAME_START.size
REQUEST_BYTES_MIN = CLIENT_ID_AT - FRAME_SIZE.size
LARGE = SMALL_BYTES_MAX + 1
"""Stands for every size of what is not small."""


# Why a connection is not read: bits of `Connection.held`. Plain numbers: an IntFlag costs a microsecond a request.
NOT_HELD = 0
ANSWERS_WAIT = 1
CLIENT_IS_SLOW = 2
QUOTA = 4
CLOSING = 8
NODE_STOPS = 16


Told: TypeAlias = "tuple[Route, float]"
"""A request whose answer a commit will send by itself: its route, and when it came."""


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_answered",
        "_client_id_bytes",
        "_filled",
        "_frame_bytes_max",
        "_large",
        "_now_ms",
        "_outbox",
        "_own",
        "_queued_max",
        "_routes",
        "_server",
        "_small_reads",
        "_together",
        "_transport",
        "bytes_in",
        "bytes_out",
        "bytes_seen",
        "context",
        "held",
        "line",
        "requests",
        "silent_since",
        "unsent_bytes",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: bytearray | None = None
        """Bytes of frames that are not complete, or that wait while the connection is held."""
        self._small_reads = 0
        """Reads of small requests since the last large one: from SMALL_READS_MIN on they are what is expected."""
        self._filled = 0
        self._client_id_bytes: bytes | None = None
        self._frame_bytes_max = server.limits.frame_size_bytes_max
        self._queued_max = server.limits.requests_queued_max
        self._routes = server.router.routes
        self._now_ms = server.clock.now_ms
        self._answered = self._on_answered
        self._outbox = server.outbox
        self._together = b""
        """Answers that are held while the outbox is open."""
        self._large: LargeAnswers | None = None
        """What is left of answers with stretches of files, and all that comes after, while there is something left."""
        self.line: deque[Deferred[Any] | Told] = deque()
        """Answers that are not sent yet, in the order of their requests. First those that a commit sends by itself; the
        others know their route and correlation id."""
        self.held = NOT_HELD
        self.silent_since = 0.0
        self.bytes_in = self.bytes_out = self.requests = 0
        """What it has carried so far."""
        self.bytes_seen = -1
        """What had come in when somebody last looked for silent connections."""
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

    def waiting(self) -> Iterator[Route]:
        """Of the requests whose answer waits."""
        for answer in self.line:
            yield answer[0] if isinstance(answer, tuple) else answer.place[0]

    # The event loop calls these.

    @property
    def socket(self) -> Any:
        return self._transport.get_extra_info("socket")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._server.limits.send_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        if self._server.is_paced:
            unpace_local(self.socket, transport.get_extra_info("sockname"), peer)
        self.context = RequestContext(self._server.services, peer[0] if peer else "", is_sent=True)
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.held |= CLOSING
        self._server.closed(self)
        for waiting in self.line:
            if not isinstance(waiting, tuple):
                waiting.abandon()
        self.line.clear()
        self._own = None
        self._together = b""
        self._large = None

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self._own
        if own is None:
            return self._server.scratch
        if self._filled == len(own):
            own = self._own = self._with_room(own, self._filled)
        return memoryview(own)[self._filled :]

    def data_received(self, data: bytes) -> None:
        """What `buffer_updated` is, while requests are small (`small_reads`)."""
        nbytes = len(data)
        self.bytes_in += nbytes
        try:
            if CLIENT_ID_AT <= nbytes <= SMALL_BYTES_MAX and not self.held:
                size, api, correlation_id, client_id_size = _unpack_start(data)
                if size + 4 == nbytes:
                    self._serve_frame(data, api, correlation_id, client_id_size)
                    return
            self._serve(memoryview(data), nbytes)
        except ProtocolError as error:
            self.close(str(error))

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        try:
            if self._own is None:
                self._serve(self._server.scratch, nbytes)
            else:
                self._filled += nbytes
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
        if self._large is None:
            self.release(CLIENT_IS_SLOW)
        else:
            self._go_on()

    # Reading.

    def _with_room(self, part: bytearray | memoryview, size: int) -> bytearray:
        """A buffer that begins with these bytes and has room for the rest of the frame.

        Not for all of it at once: a client may announce 100 MiB and send nothing. What has come so far is believed
        to be a sixteenth of it at least, so that a batch of a megabyte is moved once.
        """
        wanted = FRAME_SIZE.size
        if size >= FRAME_SIZE.size:
            wanted += self._frame_size(part, 0)
        grown = bytearray(max(size, min(wanted, max(GROWTH_BYTES_MIN, 16 * size))))
        grown[:size] = part
        return grown

    def _serve_own(self) -> None:
        own = self._own
        if own is None or self.held:
            return
        if self._filled >= FRAME_SIZE.size and self._filled < FRAME_SIZE.size + self._frame_size(own, 0):
            return
        filled, self._filled, self._own = self._filled, 0, None
        self._serve(memoryview(own), filled)

    def _serve(self, view: memoryview, filled: int) -> None:
        """Serve the complete frames in `view[:filled]` and keep what is left."""
        at = 0
        while filled - at >= CLIENT_ID_AT and not self.held:
            size, api, correlation_id, client_id_size = _unpack_start(view, at)
            if not REQUEST_BYTES_MIN <= size <= self._frame_bytes_max:
                raise self._bad_size(size)
            end = at + 4 + size
            if end > filled:
                break
            frame = bytes(view[at:end]) if size <= SMALL_BYTES_MAX else view[at:end]
            self._serve_frame(frame, api, correlation_id, client_id_size)
            if end == filled:
                if filled <= SMALL_BYTES_MAX or self._small_reads:
                    self._note_read(filled)
                return
            at = end
        self._filled = filled - at
        self._own = self._with_room(view[at:filled], self._filled)
        if self._small_reads:
            self._note_read(LARGE)

    def _note_read(self, size: int) -> None:
        """So much was read and served: see how to read on."""
        if size > SMALL_BYTES_MAX:
            if self._small_reads >= SMALL_READS_MIN:
                self._read_as(self)
            self._small_reads = 0
            return
        self._small_reads += 1
        if self._small_reads == SMALL_READS_MIN and self._frame_bytes_max >= SMALL_BYTES_MAX:
            self._read_as(SmallReads(self))

    def _read_as(self, protocol: asyncio.BaseProtocol) -> None:
        if not self._transport.is_closing():
            self._transport.set_protocol(protocol)
            if not self.held:  # which way to read is looked up when reading begins
                self._transport.pause_reading()
                self._transport.resume_reading()

    def _frame_size(self, buffer: memoryview | bytearray, at: int) -> int:
        size: int = FRAME_SIZE.unpack_from(buffer, at)[0]
        if not REQUEST_BYTES_MIN <= size <= self._frame_bytes_max:
            raise self._bad_size(size)
        return size

    def _bad_size(self, size: int) -> ProtocolError:
        return ProtocolError(
            f"a request of {size} bytes is not between {REQUEST_BYTES_MIN} and {self._frame_bytes_max}"
        )

    # Serving.

    def _serve_frame(self, frame: Bytes, api: int, correlation_id: int, client_id_size: int) -> None:
        route = self._routes.get(api)
        if route is None:
            route = self._route(api, correlation_id)
            if route is None:
                return
        self.requests += 1
        started = perf_counter()
        line, context = self.line, self.context
        context.now_ms = self._now_ms()
        again = context.again
        try:
            if again is not None and again.api == api and frame[CLIENT_AT : again.end] == again.start:
                receiver = self if not line or type(line[-1]) is tuple else None
                answer = again.serve(frame, again.end, context, receiver, correlation_id)
            else:
                answer = NOT_TAKEN
            if answer is NOT_TAKEN:
                answer = self._handle(frame, route, client_id_size)
        except ProtocolError:
            raise
        except Exception as error:
            answer = self._failure(route, error)
        if answer is None:
            return
        if answer is WITH_COMMIT:
            line.append((route, started))
        elif isinstance(answer, Deferred):
            answer.place = (route, correlation_id, started)
            line.append(answer)
            answer.on_done(self._answered)
        elif line:
            ready: Deferred[Any] = Deferred()
            ready.place = (route, correlation_id, started)
            ready.complete(answer)
            line.append(ready)
        else:
            self._answer(route, correlation_id, answer)
            route.figures.latency.record((perf_counter() - started) * 1e6)
            return
        if len(line) >= self._queued_max:
            self.hold(ANSWERS_WAIT)

    def _handle(self, frame: Bytes, route: Route, client_id_size: int) -> Any:
        """What the handler says, by the short way if there is one that knows such requests."""
        context = self.context
        context.api_version = route.api_version
        body_at = CLIENT_ID_AT
        if client_id_size > 0:
            body_at += client_id_size
            client_id = bytes(frame[CLIENT_ID_AT:body_at])
            if client_id != self._client_id_bytes:
                self._client_id_bytes = client_id
                context.client_id = client_id.decode("utf-8", "replace")
                context.again = None
        if route.flexible_request:
            if body_at < len(frame) and not frame[body_at]:
                body_at += 1  # nearly always there are none
            else:
                body_at = skip_tagged_fields(memoryview(frame), body_at)
        short_way = route.short_way
        answer = NOT_TAKEN if short_way is None else short_way.serve(frame, body_at, context)
        if answer is NOT_TAKEN:
            view = memoryview(frame)
            request, _ = route.decode(view, body_at)  # what is left over is let pass: librdkafka sends some
            answer = route.handler(request, context)
            if short_way is not None:
                short_way.learn(request, view, body_at, context)
        return answer

    def _route(self, api: int, correlation_id: int) -> Route | None:
        """The route of a request that this connection's node sees for the first time; None if it is answered."""
        router = self._server.router
        api_key, api_version = _split_api(_join_api(api))
        try:
            return router.resolve(api_key, api_version)
        except ProtocolError:
            if api_key != ApiVersionsRequest.api_key:
                raise
            self._answer(router.unsupported_version_route(), correlation_id, self._server.unsupported_api_versions())
            return None

    def _failure(self, route: Route, error: Exception) -> Response:
        route.figures.failures += 1
        if not isinstance(error, BrokerError):
            error = server_error(route, error)
        answer = route.failure(error)
        if answer is None:
            raise ProtocolError(f"{route.request.__name__} failed ({error}), and its answer has no place to say so")
        return answer

    # Answering.

    def complete(self, value: bytes) -> None:
        """Send the answer to the first request in line, which has waited for a commit. If it is the only one, at once:
        a client whose answers are large and not sent yet is held."""
        line = self.line
        if len(line) != 1 or self.held or self._together:
            self._complete_one_of(value)
            return
        route, started = line.popleft()  # type: ignore[misc]  # it is Told
        self.bytes_out += len(value)
        transport = self._transport
        if not transport.is_closing():
            transport.write(value)
        route.figures.latency.record((perf_counter() - started) * 1e6)

    def complete_several(self, values: list[bytes]) -> None:
        """The same of the first ones in line, which leave together."""
        if self.held or self._together or self._transport.is_closing():
            for value in values:
                self._complete_one_of(value)
            return
        together = b"".join(values)
        self._transport.write(together)
        self.bytes_out += len(together)
        line, now = self.line, perf_counter()
        for _ in values:
            route, started = line.popleft()  # type: ignore[misc]  # it is Told
            route.figures.latency.record((now - started) * 1e6)
        if line:
            self._answer_next()

    def _complete_one_of(self, value: bytes) -> None:
        """The same where others wait too: answers that come together are sent together."""
        if self.held & CLOSING:
            return
        line = self.line
        route, started = line.popleft()  # type: ignore[misc]  # it is Told
        self.bytes_out += len(value)
        self._send(value)
        route.figures.latency.record((perf_counter() - started) * 1e6)
        if line:
            self._answer_next()
        if self.held & ANSWERS_WAIT and len(line) <= self._queued_max // 2:
            self.release(ANSWERS_WAIT)

    def _answer_next(self) -> None:
        """The answer that has become the first in line may have been ready."""
        head = self.line[0]
        if not isinstance(head, tuple) and head.done:
            self._on_answered(head)

    def _on_answered(self, deferred: Deferred[Any]) -> None:
        """Send the answers at the head of the line that are ready."""
        line = self.line
        if not line or line[0] is not deferred:
            return
        ready: Any = deferred
        while True:
            line.popleft()
            route, correlation_id, started = ready.place
            try:
                answer = ready.value if ready.error is None else self._failure(route, ready.error)
            except ProtocolError as error:
                self.close(str(error))
                return
            self._answer(route, correlation_id, answer)
            route.figures.latency.record((perf_counter() - started) * 1e6)
            if not line:
                break
            ready = line[0]
            if not ready.done:
                break
        if self.held & ANSWERS_WAIT and len(line) <= self._queued_max // 2:
            self.release(ANSWERS_WAIT)

    def _answer(self, route: Route, correlation_id: int, answer: Any) -> None:
        if self.held & CLOSING or self._transport.is_closing():
            return
        if type(answer) is bytes:
            self.bytes_out += len(answer)
            if route.flexible_response:
                self._send(FLEXIBLE_RESPONSE_HEADER.pack(len(answer) + 5, correlation_id, 0) + answer)
            else:
                self._send(RESPONSE_HEADER.pack(len(answer) + 4, correlation_id) + answer)
            return
        out: list[Chunk] = [b""]
        route.encode(answer, out)
        size = sum(map(len, out))
        self.bytes_out += size
        if route.flexible_response:
            out[0] = FLEXIBLE_RESPONSE_HEADER.pack(size + 5, correlation_id, 0)
        else:
            out[0] = RESPONSE_HEADER.pack(size + 4, correlation_id)
        if size <= JOIN_BYTES_MAX:
            self._send(b"".join(cast("list[bytes]", out)))  # so few are no stretch of a file
        else:
            self.flush()
            self._send_large(out)
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.hold(QUOTA)
            self._server.timers.after_ms(throttle_ms, lambda: self.release(QUOTA))

    def _send(self, answer: bytes) -> None:
        if not self._outbox.is_open:
            if not self._transport.is_closing():
                self._write(answer)
        elif not self._together:
            self._together = answer
            self._outbox.add(self)
        else:
            self._together += answer
            if len(self._together) > JOIN_BYTES_MAX:
                self.flush()

    def flush(self) -> None:
        """Send what was held while the outbox was open."""
        if self._together:
            together, self._together = self._together, b""
            if not self._transport.is_closing():
                self._write(together)

    def _write(self, answer: bytes) -> None:
        if self._large is None:
            self._transport.write(answer)
        else:
            self._large.add((answer,))

    def _send_large(self, pieces: list[Chunk]) -> None:
        if self._large is not None:
            self._large.add(pieces)
        elif any(isinstance(piece, FileStretch) for piece in pieces):
            server = self._server
            soon = partial(server.loop.call_soon, self._go_on)
            large = LargeAnswers(self._transport, server.limits.send_buffer_bytes_max, soon)
            large.add(pieces)
            if not large.begin():
                self._large = large
                self.hold(CLIENT_IS_SLOW)
        else:
            self._transport.writelines(cast("list[bytes]", pieces))

    def _go_on(self) -> None:
        """Send more of what is left of large answers."""
        if self._large is not None and self._large.go_on():
            self._large = None
            self.release(CLIENT_IS_SLOW)

    # Holding back.

    def hold(self, reason: int) -> None:
        if not self.held and not self._transport.is_closing():
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
        if not self.held and not self._transport.is_closing():
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """Close in good order: what was written still leaves, but for what a slow client has left of large answers."""
        self.flush()
        self._large = None
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

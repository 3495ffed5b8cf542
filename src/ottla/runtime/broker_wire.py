"""One connection to another broker: requests out, answers in, in the order of the requests.

Reading is as in `connection`: all connections of a client share one scratch buffer, frames that are complete in it are
decoded where they lie, and only what is left over moves into a buffer of the connection's own. So record data in an
answer is a view that is valid until the one who waits for the answer returns.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.errors import ProtocolError
from ottla.protocol.codec import codec_for
from ottla.protocol.framing import FRAME_SIZE, request_header_is_flexible, response_header_is_flexible
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.one_fetch import OneFetch
from ottla.protocol.primitives import skip_tagged_fields

if TYPE_CHECKING:
    from ottla.ports import Bytes
    from ottla.protocol.schema import Request, Response
    from ottla.services import Deferred

log = logging.getLogger(__name__)

CLOSED = "the peer closed the connection"

GROWTH_BYTES_MIN = 64 * 1024
SPARE_BYTES_MAX = 1024 * 1024
"""A buffer up to this size is kept for the next answer that does not fit into the scratch."""
JOIN_BYTES_MAX = 32 * 1024
"""Requests up to this size are joined into one buffer: cheaper than many small pieces in a writev."""
CORRELATION_ID_MASK = 2**31 - 1

REQUEST_START = struct.Struct(">ihhih")
"""The frame's size, API key, version, correlation id, and the length of the client id."""
ANSWER_START = struct.Struct(">ii")
"""The frame's size and the correlation id."""
ANSWER_BYTES_MIN = ANSWER_START.size - FRAME_SIZE.size


class Way:
    """How one version of one request is written and its answer read."""

    __slots__ = ("api_key", "decode", "encode", "flexible_answer", "tags", "version")

    def __init__(self, request: type[Request | OneFetch], version: int) -> None:
        self.api_key = request.api_key
        self.version = version
        self.encode: Callable[[Any, list[Bytes]], None]
        self.decode: Callable[..., tuple[Any, int]]
        if issubclass(request, OneFetch):
            self.encode, self.decode = request.encode, request.decode
            kind: type[Request] = FetchRequest
        else:
            self.encode = codec_for(request, version).encode
            self.decode = codec_for(request.response, version).decode
            kind = request
        self.tags = b"\0" if request_header_is_flexible(kind, version) else b""
        self.flexible_answer = response_header_is_flexible(kind, version)


class Pending:
    """A request that has no answer yet."""

    __slots__ = ("answer", "client_id", "deadline", "number", "request", "version", "way")

    def __init__(
        self, request: Request | OneFetch, version: int | None, client_id: bytes, deadline: float, answer: Deferred[Any]
    ) -> None:
        self.request: Request | OneFetch | None = request
        self.version = version
        self.client_id = client_id
        self.deadline = deadline
        """In the loop's time."""
        self.answer: Deferred[Any] | None = answer
        """None once nobody waits for it: its time is over."""
        self.number = -1
        """Which request of its connection it is; not sent yet if negative."""
        self.way: Way | None = None


class Owner(Protocol):
    """Whose connection it is."""

    def opened(self, wire: Wire) -> None: ...

    def lost(self, wire: Wire, why: str) -> None: ...

    def has_room(self, wire: Wire) -> None:
        """The peer takes bytes again."""


class Wire(asyncio.BufferedProtocol):
    __slots__ = (
        "_bytes_max",
        "_filled",
        "_heard_before",
        "_own",
        "_owner",
        "_scratch",
        "_send_bytes_max",
        "_sent",
        "_spare",
        "_transport",
        "is_choked",
        "is_open",
        "line",
    )

    def __init__(self, owner: Owner, scratch: memoryview, *, answer_bytes_max: int, send_buffer_bytes_max: int) -> None:
        self._owner = owner
        self._scratch = scratch
        self._bytes_max = answer_bytes_max
        self._send_bytes_max = send_buffer_bytes_max
        self._own: bytearray | None = None
        """Bytes of an answer that is not complete."""
        self._spare: bytearray | None = None
        self._filled = 0
        self.line: deque[Pending] = deque()
        """What was sent and not answered, in order."""
        self._sent = 0
        self._heard_before = 0
        """How many requests had been sent when the peer was last heard."""
        self.is_open = False
        self.is_choked = False
        """Whether the peer does not take what was written: nothing more should be."""

    def write(self, pending: Pending, way: Way) -> None:
        """Raises whatever the request's encoder does; then nothing was written."""
        request = pending.request
        pending.request = None
        out: list[Bytes] = [b""]
        way.encode(request, out)
        number = self._sent
        client_id = pending.client_id
        header_bytes = REQUEST_START.size - FRAME_SIZE.size + len(client_id) + len(way.tags)
        size = sum(map(len, out)) + header_bytes
        start = REQUEST_START.pack(size, way.api_key, way.version, number & CORRELATION_ID_MASK, len(client_id))
        out[0] = start + client_id + way.tags
        self._sent = number + 1
        pending.number = number
        pending.way = way
        self.line.append(pending)
        if self._transport.is_closing():
            return  # what is in line is refused when the loop says that the connection is lost
        if size <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    def has_heard_since(self, pending: Pending) -> bool:
        """Whether anything came from the peer after this was sent."""
        return self._heard_before > pending.number

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._send_bytes_max)
        self.is_open = True
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc is not None else CLOSED)

    def eof_received(self) -> bool:
        """The loop says that the connection is lost some turns later, when clients may have asked who leads."""
        self._end(CLOSED)
        return False

    def pause_writing(self) -> None:
        self.is_choked = True

    def resume_writing(self) -> None:
        self.is_choked = False
        if self.is_open:
            self._owner.has_room(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self._own
        if own is None:
            return self._scratch
        return memoryview(own)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_before = self._sent
        filled = self._filled + nbytes
        self._filled = filled
        own = self._own
        try:
            if own is None:
                self._take(self._scratch, filled)
            else:
                self._take_own(own, filled)
        except ProtocolError as error:
            log.warning("an answer of %s can't be read: %s", self._transport.get_extra_info("peername"), error)
            self.abort(str(error))

    # Reading.

    def _take_own(self, own: bytearray, filled: int) -> None:
        wanted = FRAME_SIZE.size if filled < FRAME_SIZE.size else FRAME_SIZE.size + self._frame_size(own, 0)
        if filled < wanted:
            if filled == len(own):
                self._keep(memoryview(own), filled)
            return
        self._own = None
        self._take(memoryview(own), filled)
        if self._own is None and len(own) <= SPARE_BYTES_MAX:
            self._spare = own

    def _take(self, view: memoryview, filled: int) -> None:
        """Hand over the complete answers in `view[:filled]` and keep what is left."""
        at = 0
        while filled - at >= ANSWER_START.size and self.is_open:
            end = at + FRAME_SIZE.size + self._frame_size(view, at)
            if end > filled:
                break
            self._answered(view[at + FRAME_SIZE.size : end])
            at = end
        left = filled - at
        self._filled = left
        if left and self.is_open:
            self._keep(view[at:filled], left)

    def _keep(self, part: memoryview, size: int) -> None:
        """Move the beginning of an answer into a buffer with room for more of it: not for all that was announced."""
        wanted = FRAME_SIZE.size
        if size >= FRAME_SIZE.size:
            wanted += self._frame_size(part, 0)
        room = max(size + 1, min(wanted, max(GROWTH_BYTES_MIN, 16 * size)))
        spare, self._spare = self._spare, None
        own = spare if spare is not None and len(spare) >= room else bytearray(max(room, GROWTH_BYTES_MIN))
        own[:size] = part
        self._own = own

    def _frame_size(self, buffer: memoryview | bytearray, at: int) -> int:
        size: int = FRAME_SIZE.unpack_from(buffer, at)[0]
        if not ANSWER_BYTES_MIN <= size <= self._bytes_max:
            raise ProtocolError(f"an answer of {size} bytes is not between {ANSWER_BYTES_MIN} and {self._bytes_max}")
        return size

    def _answered(self, frame: memoryview) -> None:
        if not self.line:
            raise ProtocolError("nothing was asked")
        pending = self.line.popleft()
        correlation_id: int = FRAME_SIZE.unpack_from(frame, 0)[0]
        way = pending.way
        if correlation_id != pending.number & CORRELATION_ID_MASK or way is None:
            self.line.appendleft(pending)
            raise ProtocolError(f"answer {correlation_id} came where {pending.number} was expected")
        answer = pending.answer
        if answer is None:
            return
        try:
            at = skip_tagged_fields(frame, ANSWER_BYTES_MIN) if way.flexible_answer else ANSWER_BYTES_MIN
            value: Response = way.decode(frame, at)[0]
        except ProtocolError:
            self.line.appendleft(pending)
            raise
        try:
            answer.complete(value)
        except Exception:  # a bug of the one who waits must not take other answers with it
            log.exception("what waited for an answer of API %d failed", way.api_key)

    # Ending.

    def abort(self, why: str) -> None:
        """Hang up now. The owner is told at once, not when the loop gets to it."""
        if self.is_open:
            self._transport.abort()
            self._end(why)

    def _end(self, why: str) -> None:
        if self.is_open:
            self.is_open = False
            self._own = self._spare = None
            self._owner.lost(self, why)

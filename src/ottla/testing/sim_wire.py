"""One connection of a simulated client, in Kafka's own wire format."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from ottla.protocol.codec import codec_for
from ottla.protocol.framing import FRAME_SIZE, encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.schema import Request

if TYPE_CHECKING:
    from random import Random

Address = tuple[str, int]


class UnavailableError(Exception):
    """No answer: the connection can't be made, broke, or is silent. What was asked may have been done."""


class Wire(asyncio.Protocol):
    """Requests go out with numbers; answers find their way back by them."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, tuple[Request, int, asyncio.Future[Any]]] = {}
        self._number = 0
        self.is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_broken = True
        waiting, self._waiting = self._waiting, {}
        for _, _, future in waiting.values():
            if not future.done():
                future.set_exception(UnavailableError(f"the connection broke: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= FRAME_SIZE.size:
            (size,) = FRAME_SIZE.unpack_from(self._received)
            end = FRAME_SIZE.size + size
            if len(self._received) < end:
                return
            frame = bytes(self._received[FRAME_SIZE.size : end])
            del self._received[:end]
            self._answered(memoryview(frame))

    def _answered(self, frame: memoryview) -> None:
        number, _ = parse_response_header(frame, flexible=False)
        request, version, future = self._waiting.pop(number)
        _, body_at = parse_response_header(frame, response_header_is_flexible(type(request), version))
        answer, _ = codec_for(type(request).response, version).decode(frame, body_at)
        if not future.done():
            future.set_result(answer)

    def send(self, request: Request, version: int) -> asyncio.Future[Any]:
        """The answer, when it comes."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look_at)
        if self.is_broken or self._transport is None:
            future.set_exception(UnavailableError("the connection is broken"))
            return future
        self._number += 1
        self._waiting[self._number] = (request, version, future)
        frame = encode_request(request, version, correlation_id=self._number, client_id=self._client_id)
        try:
            self._transport.write(b"".join(frame))
        except RuntimeError as error:  # it is lost, and nobody has said so yet
            del self._waiting[self._number]
            future.set_exception(UnavailableError(str(error)))
        return future

    def close(self) -> None:
        """As a client that has lost patience: nothing is waited for."""
        self.is_broken = True
        if self._transport is not None:
            self._transport.abort()


def _look_at(future: asyncio.Future[Any]) -> None:
    """An answer that nobody waits for any more may be an error: that is no news to anybody."""
    if not future.cancelled():
        future.exception()


async def pause(dice: Random, seconds_max: float) -> None:
    await asyncio.sleep(dice.uniform(0, seconds_max))

"""What holds for every request, and the general way to the hot routes.

`Connection` serves producing and consuming where they are asked for plainly. Where they are not (a body in chunks, a
path with escapes), the request comes here as ASGI messages, as all others do; FastAPI knows these two routes for their
documentation only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ottla.config.http import HttpConfig
from ottla.errors import BrokerError
from ottla.http.errors import (
    SERVER_ERROR,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
    HttpError,
    bad_request,
    of_broker,
)

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

encode = msgspec.json.Encoder().encode
JSON = b"application/json"
PRODUCE = "/produce"
TOPICS = "/topics/"
STREAMS = "/stream"


class Edge:
    def __init__(self, config: HttpConfig, *, produce: Any, consume: Any) -> None:
        """`produce(topic, body, content_type, query)`, `consume(topic, partition, query)`: each gives status, JSON."""
        self.app: Asgi = _nothing
        """Set once it is loaded."""
        self._config = config
        self._produce = produce
        self._consume = consume
        self.requests = 0
        """Under way."""
        self.served: dict[int, int] = {}
        """By status."""
        self.overall_s = (2 * config.request_timeout_ms + config.wait_ms_max) / 1000
        """No request takes longer, whatever it waits for; a live tail does."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self.refusal()
        if refused is not None:
            await self._refuse(send, refused)
            return
        self.requests += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self.requests -= 1

    def refusal(self) -> HttpError | None:
        """Of a further request, if there are too many."""
        if self.requests < self._config.requests_max:
            return None
        message = f"{self.requests} requests are under way already; try again in a moment."
        return HttpError(TOO_MANY, "too_many_requests", message)

    def count(self, status: int) -> None:
        self.served[status] = self.served.get(status, 0) + 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        is_topic = path.startswith(TOPICS)
        try:
            if is_topic and scope["method"] == "POST" and path.endswith(PRODUCE):
                content_type, length = _facts(scope)
                body = await self._body(receive, length)
                status, answer = await self._produce(path[8:-8], body, content_type, _query(scope))
                await self._answer(send, status, answer)
            elif is_topic and scope["method"] == "GET" and path.endswith("/consume"):
                topic, partition = _partition(path)
                status, answer = await self._consume(topic, partition, _query(scope))
                await self._answer(send, status, answer)
            elif path.endswith(STREAMS):
                await self.app(scope, receive, self._counting(send))
            else:
                await self._serve_rest(scope, receive, send)
        except HttpError as error:
            await self._refuse(send, error)
        except BrokerError as error:
            await self._refuse(send, of_broker(error))
        except Exception:
            log.exception("%s %s failed", scope["method"], path)
            await self._refuse(send, unexpected())

    async def _serve_rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(receive, _facts(scope)[1])
        told = False

        async def replay() -> MutableMapping[str, Any]:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            async with asyncio.timeout(self.overall_s):
                await self.app(scope, replay, self._counting(send))
        except TimeoutError:
            raise timed_out() from None

    def _counting(self, send: Send) -> Send:
        async def counting(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.count(message["status"])
            await send(message)

        return counting

    async def _body(self, receive: Receive, length: int) -> bytes:
        """All of it, within bounds of size and time."""
        limit = self._config.body_bytes_max
        if length > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                message = await receive()
                body: bytes = message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body"):
                    return body
                return await self._rest(receive, body, limit)
        except TimeoutError:
            seconds = self._config.request_timeout_ms / 1000
            raise HttpError(TIMED_OUT, "slow_body", f"The body did not come within {seconds:g} s.") from None

    async def _rest(self, receive: Receive, first: bytes, limit: int) -> bytes:
        pieces, size = [first], len(first)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise bad_request("The connection was closed before the whole body had come.")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return b"".join(pieces)

    async def _answer(self, send: Send, status: int, answer: Any, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.count(status)
        body = encode(answer)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", JSON), (b"content-length", b"%d" % len(body)), *headers],
            }
        )
        await send({"type": "http.response.body", "body": body})

    async def _refuse(self, send: Send, error: HttpError) -> None:
        hang_up = [(b"connection", b"close")] if error.status in (TOO_LARGE, TIMED_OUT) else []
        await self._answer(send, error.status, error.body(), [*_extra(error), *hang_up])


async def _nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("the framework is not loaded")


def unexpected() -> HttpError:
    return HttpError(SERVER_ERROR, "internal_error", "Something went wrong in the server; its log says what.")


def timed_out() -> HttpError:
    return HttpError(UNAVAILABLE, "timed_out", "The cluster did not answer in time.")


def _extra(error: HttpError) -> list[tuple[bytes, bytes]]:
    return [(b"retry-after", b"1")] if error.status in (TOO_MANY, UNAVAILABLE) else []


def extra_headers(error: HttpError) -> bytes:
    """As they are sent."""
    return b"".join(b"%s: %s\r\n" % pair for pair in _extra(error))


def _facts(scope: Scope) -> tuple[str, int]:
    """The content type, and the length that is announced."""
    content_type, length = "", 0
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value.decode("latin-1").lower()
        elif name == b"content-length":
            length = int(value) if value.isdigit() else 0
    return content_type, length


def _query(scope: Scope) -> dict[str, str]:
    given: bytes = scope["query_string"]
    return dict(parse_qsl(given.decode("latin-1"), keep_blank_values=True)) if given else {}


def _partition(path: str) -> tuple[str, str]:
    parts = path.split("/")
    if len(parts) != 6 or parts[3] != "partitions":
        raise HttpError(404, "not_found", f"There is nothing at {path}.")
    return parts[2], parts[4]


def _too_large(limit: int) -> HttpError:
    return HttpError(TOO_LARGE, "body_too_large", f"The body is larger than {limit} bytes, which is the most.")

"""Live tails, as server-sent events and over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

from ottla.errors import BrokerError
from ottla.http.api import Api
from ottla.http.edge import encode
from ottla.http.errors import HttpError, of_broker
from ottla.http.filters import read_filters
from ottla.http.messages import Encoding, Received
from ottla.http.routes.models import TopicName, api_of

router = APIRouter(tags=["topics"])

POLICY = 1008
NOTHING = b": \n\n"

Keys = Annotated[list[str], Query(alias="key", description="Only messages with one of these keys.")]
Headers = Annotated[list[str], Query(alias="header", description="`name` or `name:value`; all of them.")]
Paths = Annotated[list[str], Query(alias="json", description="`$.a.b[0]` or `$.a.b[0]:value`; all of them.")]
Offset = Annotated[str, Query(description="As for consume, for every partition.")]

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "Events: a message each, as for consume; `event: error` before the end, if there is one.",
    }
}


@router.get("/topics/{topic}/stream", response_class=StreamingResponse, responses=EVENTS)
async def stream(
    request: Request,
    topic: TopicName,
    keys: Keys = [],  # noqa: B006  # FastAPI reads the default and makes a new list
    headers: Headers = [],  # noqa: B006
    paths: Paths = [],  # noqa: B006
    offset: Offset = "latest",
    encoding: Encoding = Encoding.TEXT,
) -> StreamingResponse:
    """What is written to the topic, as it is committed, for as long as the connection stays. Also as a WebSocket."""
    items = await _follow(api_of(request), topic, keys, headers, paths, offset, encoding)
    return StreamingResponse(_events(items), media_type="text/event-stream", headers={"cache-control": "no-store"})


async def _follow(
    api: Api, topic: str, keys: list[str], headers: list[str], paths: list[str], offset: str, encoding: Encoding
) -> AsyncIterator[Received | HttpError | None]:
    shows = read_filters(keys, headers, paths)
    partitions = await api.partition_count(topic)
    starts = await api.tails.starts(topic, partitions, offset)
    return api.tails.follow(topic, starts, shows, encoding)


async def _events(items: AsyncIterator[Received | HttpError | None]) -> AsyncIterator[bytes]:
    async for item in items:
        if item is None:
            yield NOTHING
        elif isinstance(item, HttpError):
            yield b"event: error\ndata: %s\n\n" % encode(item.body())
        else:
            yield b"id: %d-%d\ndata: %s\n\n" % (item.partition, item.offset, encode(item))


@router.websocket("/topics/{topic}/stream")
async def stream_by_websocket(
    websocket: WebSocket,
    topic: str,
    keys: Keys = [],  # noqa: B006
    headers: Headers = [],  # noqa: B006
    paths: Paths = [],  # noqa: B006
    offset: Offset = "latest",
    encoding: Encoding = Encoding.TEXT,
) -> None:
    api: Api = websocket.app.state.api
    await websocket.accept()
    try:
        items = await _follow(api, topic, keys, headers, paths, offset, encoding)
    except (HttpError, BrokerError) as error:
        told = error if isinstance(error, HttpError) else of_broker(error)
        await websocket.send_text(encode(told.body()).decode())
        await websocket.close(POLICY, told.code)
        return
    await _until_gone(websocket, items)


async def _until_gone(websocket: WebSocket, items: AsyncIterator[Received | HttpError | None]) -> None:
    """Send what comes, until it ends or the client does."""
    sending = asyncio.create_task(_send(websocket, items))
    leaving = asyncio.create_task(_left(websocket))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send(websocket: WebSocket, items: AsyncIterator[Received | HttpError | None]) -> None:
    async for item in items:
        if isinstance(item, HttpError):
            await websocket.send_text(encode(item.body()).decode())
            await websocket.close(POLICY, item.code)
        elif item is not None:
            await websocket.send_text(encode(item).decode())


async def _left(websocket: WebSocket) -> None:
    """What a client says is not listened to."""
    try:
        while True:
            await websocket.receive()
    except (WebSocketDisconnect, RuntimeError):
        return

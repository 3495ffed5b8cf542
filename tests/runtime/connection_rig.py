"""A server on a real socket with handlers of the test's own, and clients that can say anything."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from ottla.config import NetworkConfig
from ottla.handlers.registry import Api
from ottla.protocol.codec import decode
from ottla.protocol.framing import encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.schema import Request
from ottla.runtime.clock import SystemClock
from ottla.runtime.dispatch import Router
from ottla.runtime.outbox import Outbox
from ottla.runtime.server import Server
from ottla.runtime.timers import Timers
from ottla.services import Deferred, RequestContext

Handler = Callable[[Any, RequestContext], Any]


class Client:
    """A client that can say anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, request: Request, version: int, correlation_id: int = 1) -> None:
        self.writer.write(frame(request, version, correlation_id))

    async def frame(self) -> bytes:
        size = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(size)

    async def answer(self, request: type[Request], version: int) -> tuple[int, Any]:
        payload = memoryview(await self.frame())
        correlation_id, at = parse_response_header(payload, response_header_is_flexible(request, version))
        return correlation_id, decode(request.response, version, payload[at:])

    async def hung_up(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


def frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(encode_request(request, version, correlation_id=correlation_id, client_id="test"))


def api(request: type[Request], handler: Handler) -> Api:
    return Api(
        key=request.api_key, request=request, handler=handler, versions=request.versions, advertised=request.versions
    )


class Rig:
    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self._port = port
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        self._clients.append(Client(*await asyncio.open_connection("127.0.0.1", self._port)))
        return self._clients[-1]

    async def disconnect(self) -> None:
        for client in self._clients:
            client.writer.close()
            await asyncio.gather(client.writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def rig(*apis: Api, limits: NetworkConfig | None = None) -> AsyncIterator[Rig]:
    loop = asyncio.get_running_loop()
    timers = Timers(loop)
    services: Any = object()
    server = Server(
        loop=loop,
        limits=limits or NetworkConfig(),
        clock=SystemClock(),
        timers=timers,
        router=Router({one.key: one for one in apis}),
        outbox=Outbox(),
        services=services,
    )
    port = await server.bind("127.0.0.1", 0)
    await server.serve()
    clients = Rig(server, port)
    try:
        yield clients
    finally:
        await clients.disconnect()
        await server.close()
        timers.close()


def run(
    scenario: Callable[[], Awaitable[None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(), 20)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(limited())


async def until(condition: Callable[..., bool]) -> None:
    """Wait for something that the server does by itself; the scenario's own time limit ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.001)


def beat(number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def echo_generation(request: HeartbeatRequest, _: RequestContext) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=request.generation_id)


HEARTBEAT = api(HeartbeatRequest, echo_generation)


class Later(list[Deferred[Any]]):
    """A handler that leaves it to the test to answer; it holds what waits, in the order of the requests."""

    def __call__(self, *_: Any) -> Deferred[Any]:
        self.append(Deferred())
        return self[-1]

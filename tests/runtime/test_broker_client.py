"""Requests to other brokers over real sockets: against the node's own server, and against peers that misbehave."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from ottla.config import NetworkConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import Api
from ottla.protocol.codec import encode
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.schema import Request
from ottla.runtime import broker_link
from ottla.runtime.broker_client import BrokerClient
from ottla.runtime.broker_wire import CLOSED, Wire
from ottla.runtime.clock import SystemClock
from ottla.runtime.dispatch import Router
from ottla.runtime.outbox import Outbox
from ottla.runtime.server import Server
from ottla.runtime.timers import Timers
from ottla.services import Deferred

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter

TIMEOUT_MS = 5_000


def run(test: Awaitable[None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(test, 20))


async def answer_of(deferred: Deferred[Any]) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(answer: Deferred[Any]) -> None:
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.value)

    deferred.on_done(done)
    return await future


async def error_of(deferred: Deferred[Any]) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        await answer_of(deferred)
    return refused.value.code


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@asynccontextmanager
async def a_client(limits: NetworkConfig | None = None) -> AsyncIterator[BrokerClient]:
    loop = asyncio.get_running_loop()
    timers = Timers(loop)
    client = BrokerClient(
        loop=loop, timers=timers, random=random.Random(1), limits=limits or NetworkConfig(), client_id="ottla-1"
    )
    try:
        yield client
    finally:
        await client.close()
        timers.close()


def serves(request: type[Request], handler: Callable[..., Any], versions: tuple[int, int] | None = None) -> Api:
    served = versions or request.versions
    return Api(key=request.api_key, request=request, handler=handler, versions=served, advertised=served)


@asynccontextmanager
async def a_broker(*apis: Api, port: int = 0) -> AsyncIterator[tuple[str, int]]:
    loop = asyncio.get_running_loop()
    timers = Timers(loop)
    known = {api.key: api for api in apis}

    def api_versions(_request: Any, _ctx: Any) -> ApiVersionsResponse:
        every = [ApiVersion(api_key=a.key, min_version=a.versions[0], max_version=a.versions[1]) for a in apis]
        return ApiVersionsResponse(api_keys=every)

    known.setdefault(ApiVersionsRequest.api_key, serves(ApiVersionsRequest, api_versions))
    server = Server(
        loop=loop,
        limits=NetworkConfig(),
        clock=SystemClock(),
        timers=timers,
        router=Router(known),
        outbox=Outbox(),
        services=None,
    )
    bound = await server.bind("127.0.0.1", port)
    await server.serve()
    try:
        yield ("127.0.0.1", bound)
    finally:
        await server.close()
        timers.close()


class Peer:
    """A broker that says what the test tells it to."""

    def __init__(self, serve: Callable[["Peer", Reader, Writer], Awaitable[None]]) -> None:
        self._serve = serve
        self.connections = 0
        self.hung_up = 0
        self.ended = asyncio.Event()

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        try:
            await self._serve(self, reader, writer)
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.hung_up += 1
            writer.close()


@asynccontextmanager
async def a_peer(serve: Callable[[Peer, Reader, Writer], Awaitable[None]]) -> AsyncIterator[tuple[Peer, Any]]:
    peer = Peer(serve)
    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    try:
        yield peer, server.sockets[0].getsockname()
    finally:
        peer.ended.set()
        server.close()
        await until(lambda: peer.hung_up == peer.connections)


async def read_request(reader: Reader) -> tuple[int, int, int]:
    """API key, version and correlation id."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    key, version, correlation_id = struct.unpack(">hhi", (await reader.readexactly(size))[:8])
    return key, version, correlation_id


def answer_bytes(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    header = struct.pack(">i", correlation_id) + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


async def greet(reader: Reader, writer: Writer) -> None:
    """Serve Heartbeat v4, and say so."""
    _, version, correlation_id = await read_request(reader)
    served = ApiVersionsResponse(api_keys=[ApiVersion(api_key=HeartbeatRequest.api_key, min_version=0, max_version=4)])
    writer.write(answer_bytes(correlation_id, encode(served, version)))


def heartbeat(correlation_id: int, error_code: int = 0) -> bytes:
    return answer_bytes(correlation_id, encode(HeartbeatResponse(error_code=error_code), 4), flexible=True)


def echo(request: HeartbeatRequest, _ctx: Any) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=request.generation_id)


def test_a_request_is_answered_in_the_newest_version_that_both_know() -> None:
    async def test() -> None:
        seen: list[tuple[int, str | None]] = []

        def handler(request: HeartbeatRequest, ctx: Any) -> HeartbeatResponse:
            seen.append((ctx.api_version, ctx.client_id))
            return echo(request, ctx)

        async with a_broker(serves(HeartbeatRequest, handler, (0, 3))) as address, a_client() as client:
            answer = await answer_of(client.send(address, HeartbeatRequest(generation_id=7), timeout_ms=TIMEOUT_MS))
            assert answer.error_code == 7
            again = client.send(address, HeartbeatRequest(), version=1, timeout_ms=TIMEOUT_MS, client_id="other")
            await answer_of(again)
        assert seen == [(3, "ottla-1"), (1, "other")]

    run(test())


def test_many_requests_are_under_way_at_once_and_each_gets_its_own_answer() -> None:
    async def test() -> None:
        async with a_broker(serves(HeartbeatRequest, echo)) as address, a_client() as client:
            sent = [
                client.send(address, HeartbeatRequest(generation_id=number), timeout_ms=TIMEOUT_MS)
                for number in range(500)
            ]
            answers = [await answer_of(one) for one in sent]
            assert [answer.error_code for answer in answers] == list(range(500))
            assert client.links == 1

    run(test())


def test_an_api_or_a_version_that_the_peer_does_not_serve_is_refused_without_asking() -> None:
    async def test() -> None:
        async with a_broker(serves(HeartbeatRequest, echo, (2, 3))) as address, a_client() as client:
            missing = client.send(address, FetchRequest(), timeout_ms=TIMEOUT_MS)
            too_new = client.send(address, HeartbeatRequest(), version=4, timeout_ms=TIMEOUT_MS)
            too_old = client.send(address, HeartbeatRequest(), version=1, timeout_ms=TIMEOUT_MS)
            served = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            for refused in (missing, too_new, too_old):
                assert await error_of(refused) is ErrorCode.UNSUPPORTED_VERSION
            assert (await answer_of(served)).error_code == 0

    run(test())


def test_a_peer_that_knows_only_an_older_api_versions_is_asked_in_that_version() -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        _, _, correlation_id = await read_request(reader)
        known = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=0, max_version=2)],
        )
        writer.write(answer_bytes(correlation_id, encode(known, 0)))
        await greet(reader, writer)
        _, version, correlation_id = await read_request(reader)
        writer.write(heartbeat(correlation_id, version))

    async def test() -> None:
        async with a_peer(serve) as (_, address), a_client() as client:
            answer = await answer_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS))
            assert answer.error_code == 4

    run(test())


def test_a_large_answer_in_small_pieces_is_put_together() -> None:
    records = random.Random(5).randbytes(3_000_000)

    def fetch(request: FetchRequest, _ctx: Any) -> FetchResponse:
        size = request.max_bytes
        partition = PartitionData(partition_index=0, high_watermark=size, records=records[:size])
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])

    async def test() -> None:
        async with a_broker(serves(FetchRequest, fetch)) as address, a_client() as client:
            sizes = [3_000_000, 10, 200_000, 262_144, 300_000, 0, 3_000_000, 70_000]
            received: list[bytes] = []
            waiting = []
            for size in sizes:
                sent = client.send(address, FetchRequest(max_bytes=size), timeout_ms=TIMEOUT_MS)
                waiting.append(sent.then(lambda a: received.append(bytes(a.responses[0].partitions[0].records))))
            for one in waiting:
                await answer_of(one)
            assert received == [records[:size] for size in sizes]

    run(test())


def test_an_answer_may_come_byte_by_byte() -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)
        answers = b"".join([heartbeat((await read_request(reader))[2], number) for number in range(3)])
        for at in range(len(answers)):
            writer.write(answers[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async def test() -> None:
        async with a_peer(serve) as (_, address), a_client() as client:
            sent = [client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS) for _ in range(3)]
            assert [(await answer_of(one)).error_code for one in sent] == [0, 1, 2]

    run(test())


def test_channels_have_connections_of_their_own() -> None:
    async def serve(peer: Peer, reader: Reader, writer: Writer) -> None:
        number = peer.connections
        await greet(reader, writer)
        _, _, correlation_id = await read_request(reader)
        if number == 2:
            writer.write(heartbeat(correlation_id))

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            stuck = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            await until(lambda: peer.connections == 1)
            await answer_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS, channel="replica"))
            assert not stuck.done

    run(test())


def test_nobody_there_fails_and_attempts_become_rarer() -> None:
    async def test() -> None:
        attempts: list[float] = []
        async with a_broker() as address:
            pass
        loop = asyncio.get_running_loop()
        async with a_client() as client:
            started = loop.time()
            for _ in range(5):
                assert await error_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)) is (
                    ErrorCode.NETWORK_EXCEPTION
                )
                attempts.append(loop.time() - started)
            assert attempts[-1] >= 0.9 * (25 + 50 + 100 + 200) / 1000

    run(test())


def test_a_peer_that_comes_back_is_reached_again() -> None:
    async def test() -> None:
        async with a_client() as client:
            async with a_broker(serves(HeartbeatRequest, echo)) as address:
                await answer_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS))
            assert await error_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)) is (
                ErrorCode.NETWORK_EXCEPTION
            )
            async with a_broker(serves(HeartbeatRequest, echo), port=address[1]):
                await answer_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS))

    run(test())


def test_what_is_under_way_fails_when_the_connection_breaks() -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)
        await read_request(reader)
        await read_request(reader)
        writer.transport.abort()

    async def test() -> None:
        async with a_peer(serve) as (_, address), a_client() as client:
            lost: list[tuple[str, int]] = []
            client.on_lost = lost.append
            sent = [client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS) for _ in range(2)]
            assert [await error_of(one) for one in sent] == [ErrorCode.NETWORK_EXCEPTION] * 2
            assert lost == [address]

    run(test())


def test_the_end_of_a_connection_is_told_when_it_is_seen_and_once() -> None:
    """The loop says only some turns later that it is lost."""
    told: list[str] = []

    class Owner:
        def opened(self, _wire: Wire) -> None:
            """Nothing to say."""

        def lost(self, _wire: Wire, why: str) -> None:
            told.append(why)

        def has_room(self, _wire: Wire) -> None:
            """Nothing waits."""

    class Transport(asyncio.Transport):
        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            """Nothing is written."""

    wire = Wire(Owner(), memoryview(bytearray(64)), answer_bytes_max=64, send_buffer_bytes_max=64)
    wire.connection_made(Transport())
    assert wire.eof_received() is False
    assert told == [CLOSED]
    wire.connection_lost(None)
    assert told == [CLOSED]


def test_one_who_asks_again_at_once_when_told_of_a_failure_does_not_spin() -> None:
    async def test() -> None:
        async with a_broker() as address:
            pass
        loop = asyncio.get_running_loop()
        async with a_client() as client:
            asked_at: list[float] = []

            def ask(_done: Deferred[Any] | None = None) -> None:
                asked_at.append(loop.time())
                if len(asked_at) < 5:
                    client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS).on_done(ask)

            ask()
            await until(lambda: len(asked_at) == 5)
            assert asked_at[-1] - asked_at[0] >= 0.9 * (25 + 50 + 100) / 1000

    run(test())


def test_a_silent_peer_is_hung_up_on_when_time_is_over() -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            patient = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            hasty = client.send(address, HeartbeatRequest(), timeout_ms=100)
            assert await error_of(hasty) is ErrorCode.REQUEST_TIMED_OUT
            assert await error_of(patient) is ErrorCode.NETWORK_EXCEPTION
            await until(lambda: peer.hung_up == 1)

    run(test())


def test_a_peer_that_is_slow_but_alive_keeps_its_connection() -> None:
    ask_now = asyncio.Event()

    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)
        first = await read_request(reader)
        second = await read_request(reader)
        writer.write(heartbeat(first[2], 1))
        await ask_now.wait()
        third = await read_request(reader)
        writer.write(heartbeat(second[2], 2) + heartbeat(third[2], 3))

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            first = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            second = client.send(address, HeartbeatRequest(), timeout_ms=200)
            assert (await answer_of(first)).error_code == 1
            assert await error_of(second) is ErrorCode.REQUEST_TIMED_OUT
            third = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            ask_now.set()
            assert (await answer_of(third)).error_code == 3
            assert peer.connections == 1

    run(test())


def test_a_peer_that_never_greets_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_link, "CONNECT_MS_MAX", 50)

    async def serve(_peer: Peer, _reader: Reader, _writer: Writer) -> None:
        pass

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            sent = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            assert await error_of(sent) is ErrorCode.NETWORK_EXCEPTION
            await until(lambda: peer.hung_up == 1)

    run(test())


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">ii", 2**31 - 1, 1),
        struct.pack(">ii", -5, 1),
        struct.pack(">ii", 3, 1),
        heartbeat(77),
        answer_bytes(1, b"", flexible=True),
        heartbeat(1) + heartbeat(2),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_hung_up_on(garbage: bytes) -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)
        await read_request(reader)
        writer.write(garbage)

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            answered: list[object] = []
            client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS).on_done(answered.append)
            await until(lambda: peer.hung_up == 1)
            assert len(answered) == 1

    run(test())


def test_requests_that_wait_are_bounded() -> None:
    async def test() -> None:
        async with a_broker() as address:
            pass
        async with a_client() as client:
            sent = [
                client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
                for _ in range(broker_link.REQUESTS_MAX + 5)
            ]
            assert [one.done for one in sent[-6:]] == [False, True, True, True, True, True]

    run(test())


def test_a_peer_that_does_not_read_costs_no_more_than_the_buffer_and_the_queue() -> None:
    async def serve(peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)
        await peer.ended.wait()

    async def test() -> None:
        limits = NetworkConfig(send_buffer_bytes_max=64 * 1024)
        async with a_peer(serve) as (_, address), a_client(limits) as client:
            big = "x" * 30_000
            sent = [
                client.send(address, HeartbeatRequest(group_id=big), timeout_ms=400)
                for _ in range(broker_link.REQUESTS_MAX)
            ]
            refused = client.send(address, HeartbeatRequest(group_id=big), timeout_ms=400)
            assert await error_of(refused) is ErrorCode.NETWORK_EXCEPTION
            codes = {await error_of(one) for one in sent}
            assert codes <= {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION}

    run(test())


def test_a_bug_of_one_who_waits_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with a_broker(serves(HeartbeatRequest, echo)) as address, a_client() as client:

            def fail(_done: object) -> None:
                raise KeyError("a bug")

            client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS).on_done(fail)
            answer = await answer_of(client.send(address, HeartbeatRequest(generation_id=3), timeout_ms=TIMEOUT_MS))
            assert answer.error_code == 3

    run(test())
    assert "a bug" in caplog.text


def test_a_message_that_cannot_be_encoded_fails_alone() -> None:
    async def test() -> None:
        async with a_broker(serves(HeartbeatRequest, echo)) as address, a_client() as client:
            wrong = client.send(address, HeartbeatRequest(generation_id=2**40), timeout_ms=TIMEOUT_MS)
            right = client.send(address, HeartbeatRequest(generation_id=3), timeout_ms=TIMEOUT_MS)
            assert await error_of(wrong) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert (await answer_of(right)).error_code == 3

    run(test())


def test_closing_fails_what_waits_and_what_comes_later() -> None:
    async def serve(_peer: Peer, reader: Reader, writer: Writer) -> None:
        await greet(reader, writer)

    async def test() -> None:
        async with a_peer(serve) as (peer, address), a_client() as client:
            sent = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            queued = client.send(("127.0.0.1", 1), HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            await until(lambda: peer.connections == 1)
            await client.close()
            late = client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS)
            for one in (sent, queued, late):
                assert await error_of(one) is ErrorCode.NETWORK_EXCEPTION

    run(test())


def test_a_link_whose_idle_connection_ends_is_forgotten() -> None:
    async def test() -> None:
        async with a_client() as client:
            async with a_broker(serves(HeartbeatRequest, echo)) as address:
                await answer_of(client.send(address, HeartbeatRequest(), timeout_ms=TIMEOUT_MS))
                assert client.links == 1
                client.on_lost = lambda _address: pytest.fail("nothing was asked there")
            await until(lambda: client.links == 0)

    run(test())

"""Connections against a real socket, with handlers of the test's own."""

import asyncio
import struct
from typing import Any

import pytest

from ottla.config import NetworkConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.codec import decode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.services import Deferred, RequestContext
from tests.runtime.connection_rig import HEARTBEAT, Later, api, beat, frame, rig, run, until

pytestmark = pytest.mark.usefixtures("reads")


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_request_is_answered_in_its_version_with_its_correlation_id(version: int) -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            client.send(beat(7), version, correlation_id=99)
            correlation_id, answer = await client.answer(HeartbeatRequest, version)
            assert (correlation_id, answer.error_code) == (99, 7)

    run(scenario)


def test_many_requests_in_one_segment_and_one_request_in_many_are_the_same() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            client.writer.write(b"".join(frame(beat(n), 4, n) for n in range(50)))
            for n in range(50):
                assert (await client.answer(HeartbeatRequest, 4))[0] == n
            for byte in frame(beat(1), 4, 50):
                client.writer.write(bytes([byte]))
                await client.writer.drain()
            assert (await client.answer(HeartbeatRequest, 4))[0] == 50

    run(scenario)


def test_a_frame_larger_than_the_shared_buffer_arrives_whole() -> None:
    sizes: list[int] = []

    def count(request: HeartbeatRequest, _: RequestContext) -> HeartbeatResponse:
        sizes.append(len(request.group_id))
        return HeartbeatResponse()

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, count)) as server:
            client = await server.connect()
            big = HeartbeatRequest(group_id="x" * 3_000_000, member_id="m")
            client.writer.write(frame(beat(1), 4, 1) + frame(big, 4, 2) + frame(beat(3), 4, 3))
            assert [(await client.answer(HeartbeatRequest, 4))[0] for _ in range(3)] == [1, 2, 3]
            assert sizes == [1, 3_000_000, 1]

    run(scenario)


def test_answers_leave_in_the_order_of_their_requests_whoever_is_ready_first() -> None:
    waiting: list[Deferred[HeartbeatResponse]] = []

    def later(request: HeartbeatRequest, _: RequestContext) -> Any:
        if request.generation_id == 2:
            return HeartbeatResponse(error_code=2)
        waiting.append(Deferred())
        return waiting[-1]

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, later)) as server:
            client = await server.connect()
            for n in (0, 1, 2):
                client.send(beat(n), 4, correlation_id=n)
            await until(lambda: len(waiting) >= 2)
            waiting[1].complete(HeartbeatResponse(error_code=1))
            waiting[0].complete(HeartbeatResponse(error_code=0))
            assert [(await client.answer(HeartbeatRequest, 4))[0] for _ in range(3)] == [0, 1, 2]

    run(scenario)


def test_an_expected_failure_is_told_by_its_code() -> None:
    def refuse(*_: Any) -> Any:
        raise BrokerError(ErrorCode.NOT_COORDINATOR)

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, refuse)) as server:
            client = await server.connect()
            client.send(beat(0), 4)
            assert (await client.answer(HeartbeatRequest, 4))[1].error_code == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_a_bug_of_ours_is_answered_and_the_connection_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail_once(request: HeartbeatRequest, _: RequestContext) -> HeartbeatResponse:
        if request.generation_id == 0:
            raise KeyError("surprise")
        return HeartbeatResponse(error_code=0)

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, fail_once)) as server:
            client = await server.connect()
            client.send(beat(0), 4)
            client.send(beat(1), 4)
            assert (await client.answer(HeartbeatRequest, 4))[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert (await client.answer(HeartbeatRequest, 4))[1].error_code == ErrorCode.NONE

    run(scenario)
    assert "surprise" in caplog.text


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">i", 0),
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 200 * 1024 * 1024),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhih", 10, 12, 99, 1, -1),
        struct.pack(">ihhih", 10, 9999, 0, 1, -1),
        struct.pack(">ihhih", 10, 12, 0, 1, 3000),
        struct.pack(">ihhih", 14, 12, 4, 1, -1) + b"\xff\xff\xff\xff",
        frame(HeartbeatRequest(group_id="g"), 0)[:-1] + b"\x7f",
    ],
)
def test_garbage_closes_that_connection_and_no_other(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            good, bad = await server.connect(), await server.connect()
            bad.writer.write(garbage)
            assert await bad.hung_up()
            good.send(beat(5), 4)
            assert (await good.answer(HeartbeatRequest, 4))[1].error_code == 5
            assert server.server.protocol_errors == 1

    run(scenario)
    assert "closing the connection" in caplog.text


def test_a_frame_that_is_announced_but_never_sent_costs_no_memory() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            client.writer.write(struct.pack(">i", 99 * 1024 * 1024) + b"some bytes")
            await client.writer.drain()
            await until(lambda: bool(server.server.connections))
            connection = next(iter(server.server.connections))
            await until(lambda: connection.buffered_bytes == 14)
            assert connection.buffer_bytes <= 64 * 1024

    run(scenario)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    async def scenario() -> None:
        async with rig(api(ApiVersionsRequest, lambda *_: ApiVersionsResponse())) as server:
            client = await server.connect()
            client.writer.write(struct.pack(">ihhih", 10, 18, 99, 5, -1))
            payload = memoryview(await client.frame())
            answer = decode(ApiVersionsResponse, 0, payload[4:])
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [(18, 0, 4)]

    run(scenario)


def test_a_client_that_does_not_read_is_not_read_either() -> None:
    served = 0

    def big(*_: Any) -> ApiVersionsResponse:
        nonlocal served
        served += 1
        return ApiVersionsResponse(zk_migration_ready=False, supported_features=_features(64 * 1024))

    async def scenario() -> None:
        limits = NetworkConfig(send_buffer_bytes_max=256 * 1024)
        async with rig(api(ApiVersionsRequest, big), limits=limits) as server:
            client = await server.connect()
            for n in range(2_000):
                client.send(ApiVersionsRequest(), 3, correlation_id=n)
            await client.writer.drain()
            await until(lambda: bool(server.server.unsent_bytes))
            held_at = served
            assert held_at < 2_000
            for n in range(2_000):
                assert (await client.answer(ApiVersionsRequest, 3))[0] == n
            assert served == 2_000
            assert server.server.unsent_bytes == 0

    run(scenario)


def _features(size: int) -> Any:
    return [SupportedFeatureKey(name="f" * size, min_version=0, max_version=1)]


def test_too_many_answers_in_waiting_hold_back_further_requests() -> None:
    waiting = Later()

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, waiting), limits=NetworkConfig(requests_queued_max=4)) as server:
            client = await server.connect()
            client.writer.write(b"".join(frame(beat(n), 4, n) for n in range(10)))
            await until(lambda: len(waiting) >= 4)
            for n in range(10):
                await until(lambda n=n: len(waiting) > n)
                assert len(waiting) - n <= 4
                waiting[n].complete(HeartbeatResponse())
                assert (await client.answer(HeartbeatRequest, 4))[0] == n

    run(scenario)


def test_a_throttled_client_is_answered_at_once_and_read_again_after_the_pause() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        throttle = api(HeartbeatRequest, lambda *_: HeartbeatResponse(throttle_time_ms=120))
        async with rig(throttle) as server:
            client = await server.connect()
            started = loop.time()
            client.send(beat(1), 4)
            await client.answer(HeartbeatRequest, 4)
            first = loop.time() - started
            client.send(beat(2), 4)
            await client.answer(HeartbeatRequest, 4)
            assert first < 0.1
            assert loop.time() - started >= 0.115

    run(scenario)


def test_a_request_without_an_answer_gets_none() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT, api(ProduceRequest, lambda *_: None)) as server:
            client = await server.connect()
            client.send(ProduceRequest(acks=0), 7, correlation_id=1)
            client.send(beat(3), 4, correlation_id=2)
            assert (await client.answer(HeartbeatRequest, 4))[0] == 2

    run(scenario)


def test_one_connection_too_many_is_turned_away() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT, limits=NetworkConfig(connections_max=1)) as server:
            first = await server.connect()
            first.send(beat(1), 4)
            await first.answer(HeartbeatRequest, 4)
            second = await server.connect()
            assert await second.hung_up()
            first.send(beat(2), 4)
            assert (await first.answer(HeartbeatRequest, 4))[1].error_code == 2

    run(scenario)


def test_who_waits_is_answered_when_nothing_more_is_served() -> None:
    waiting = Later()

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, waiting)) as served:
            client = await served.connect()
            client.send(beat(1), 4)
            await until(lambda: len(waiting) == 1)
            served.server.serve_no_more()
            client.send(beat(2), 4)
            with pytest.raises(ConnectionRefusedError):
                await served.connect()
            waiting[0].complete(HeartbeatResponse(error_code=1))
            await served.server.close()

            assert (await client.answer(HeartbeatRequest, 4))[1].error_code == 1
            assert await client.hung_up()
            assert len(waiting) == 1

    run(scenario)


def test_an_answer_to_a_connection_that_was_just_lost_disturbs_nobody() -> None:
    """Between the loss and the loop's word of it the transport refuses everything."""
    waiting = Later()

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, waiting)) as served:
            client = await served.connect()
            client.send(beat(1), 4)
            await until(lambda: len(waiting) == 1)
            (connection,) = served.server.connections
            connection._transport.abort()
            waiting[0].complete(HeartbeatResponse())
            assert connection.bytes_out == 0

    run(scenario)

"""Connections whose requests have been small for a while, and are read in another way: against a real socket."""

import asyncio
import random
import struct
from collections.abc import Callable

import pytest
import uvloop

from ottla.config import NetworkConfig
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.runtime.connection import Connection
from ottla.runtime.small_reads import SMALL_BYTES_MAX, SMALL_READS_MIN, SmallReads
from tests.runtime.connection_rig import HEARTBEAT, Client, Later, Rig, api, beat, frame, rig, run, until

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]
VERSION = 4


def large(number: int, size: int = 10_000) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g" * size, generation_id=number, member_id="m")


async def answered(client: Client, number: int) -> None:
    correlation_id, answer = await client.answer(HeartbeatRequest, VERSION)
    assert (correlation_id, answer.error_code) == (number, number)


async def ask(client: Client, request: HeartbeatRequest) -> None:
    client.send(request, VERSION, correlation_id=request.generation_id)
    await answered(client, request.generation_id)


def served(server: Rig) -> Connection:
    (connection,) = server.server.connections
    return connection


def is_small(server: Rig) -> bool:
    return isinstance(served(server)._transport.get_protocol(), SmallReads)


async def settle(client: Client, server: Rig) -> None:
    """Small requests, until they are what is expected."""
    for number in range(SMALL_READS_MIN):
        assert not is_small(server)
        await ask(client, beat(number))
    assert is_small(server)


@pytest.mark.parametrize("loop", LOOPS)
def test_many_small_requests_change_the_way_and_a_large_one_changes_it_back(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            await settle(client, server)
            await ask(client, large(7))
            await settle(client, server)
            await ask(client, large(8, size=1_000_000))
            await settle(client, server)
            assert served(server).buffer_bytes == 0

    run(scenario, loop)


def test_a_large_request_among_the_first_starts_the_count_again() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            for number in range(SMALL_READS_MIN - 1):
                await ask(client, beat(number))
            await ask(client, large(7))
            await settle(client, server)

    run(scenario)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("seed", range(4))
def test_what_comes_in_any_pieces_is_served_once_and_in_order(
    loop: Callable[[], asyncio.AbstractEventLoop], seed: int
) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            await settle(client, server)
            sizes = [chance.choice([1, 1, 1, 1, 50, 1_900, 2_040, 2_100, 9_000, 300_000]) for _ in range(300)]
            sent = b"".join(frame(large(n, size), VERSION, n) for n, size in enumerate(sizes))
            reading = asyncio.ensure_future(_read(client, len(sizes)))
            at = 0
            while at < len(sent):
                piece = chance.choice([1, 13, 14, 40, 41, 700, 2_048, 5_000, 400_000])
                client.writer.write(sent[at : at + piece])
                await client.writer.drain()
                await asyncio.sleep(0)
                at += piece
            await reading

    async def _read(client: Client, count: int) -> None:
        for number in range(count):
            await answered(client, number)

    run(scenario, loop)


def test_requests_that_arrive_together_leave_the_way_as_it_is() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            await settle(client, server)
            client.writer.write(b"".join(frame(beat(number), VERSION, number) for number in range(20)))
            for number in range(20):
                await answered(client, number)
            assert is_small(server)

    run(scenario)


def test_what_waits_behind_too_many_answers_is_kept_and_served_later() -> None:
    waiting = Later()

    async def scenario() -> None:
        async with rig(api(HeartbeatRequest, waiting), limits=NetworkConfig(requests_queued_max=4)) as server:
            client = await server.connect()
            for number in range(SMALL_READS_MIN):
                client.send(beat(number), VERSION, correlation_id=number)
                await until(lambda: bool(waiting))
                waiting.pop().complete(HeartbeatRequest.response())
                await client.answer(HeartbeatRequest, VERSION)
            assert is_small(server)
            client.writer.write(b"".join(frame(beat(number), VERSION, number) for number in range(10)))
            await until(lambda: len(waiting) == 4)
            assert served(server).buffered_bytes == 6 * len(frame(beat(0), VERSION))
            for number in range(10):
                waiting.pop(0).complete(HeartbeatRequest.response())
                assert (await client.answer(HeartbeatRequest, VERSION))[0] == number
            client.send(beat(11), VERSION, correlation_id=11)
            await until(lambda: bool(waiting))

    run(scenario)


def test_a_frame_beyond_the_bound_is_refused_as_before() -> None:
    async def scenario() -> None:
        limits = NetworkConfig(frame_size_bytes_max=SMALL_BYTES_MAX // 2)
        async with rig(HEARTBEAT, limits=limits) as server:
            client = await server.connect()
            for number in range(2 * SMALL_READS_MIN):
                await ask(client, beat(number))
            client.send(large(1, size=SMALL_BYTES_MAX // 2 + 100), VERSION)
            assert await client.hung_up()

    run(scenario)


@pytest.mark.parametrize(
    "garbage", [struct.pack(">iiih", 1 << 30, 12 << 16, 1, -1), b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -5) * 4]
)
def test_garbage_ends_the_connection(garbage: bytes) -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            await settle(client, server)
            client.writer.write(garbage)
            assert await client.hung_up()
            await until(lambda: not server.server.connections)

    run(scenario)


def test_the_end_of_a_connection_is_noticed() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            client = await server.connect()
            await settle(client, server)
            client.writer.close()
            await until(lambda: not server.server.connections)

    run(scenario)

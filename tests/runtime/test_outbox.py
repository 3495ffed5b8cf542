"""Answers that are ready together leave together, in the order of their requests."""

import select
from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.runtime.connection import JOIN_BYTES_MAX, Connection
from ottla.runtime.outbox import Outbox
from ottla.services import Deferred
from tests.runtime.connection_rig import Client, api, beat, rig, run, until

VERSION = 4


class Sends:
    """Stands between a connection and its transport, and counts."""

    def __init__(self, connection: Connection) -> None:
        self._transport: Any = connection._transport
        connection._transport = self  # type: ignore[assignment]
        self.sizes: list[int] = []

    def write(self, data: bytes) -> None:
        self.sizes.append(len(data))
        self._transport.write(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self.sizes.append(sum(map(len, pieces)))
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Waiting:
    """Requests that wait until the test answers them."""

    def __init__(self) -> None:
        self.answers: list[Deferred[Any]] = []
        self.apis = [api(HeartbeatRequest, self._wait), api(ApiVersionsRequest, self._wait)]

    def _wait(self, *_: object) -> Deferred[Any]:
        self.answers.append(Deferred())
        return self.answers[-1]

    async def ask(self, client: Client, *requests: HeartbeatRequest | ApiVersionsRequest) -> None:
        count = len(self.answers) + len(requests)
        for number, request in enumerate(requests):
            client.send(request, VERSION, correlation_id=number)
        await until(lambda: len(self.answers) == count)


def scenario(test: Callable[[Any, Waiting], Any]) -> None:
    waiting = Waiting()

    async def told() -> None:
        async with rig(*waiting.apis) as server:
            await test(server, waiting)

    run(told)


def sends_of(server: Any) -> list[Sends]:
    return [Sends(connection) for connection in server.server.connections]


def test_answers_of_one_connection_are_one_send() -> None:
    async def test(server: Any, waiting: Waiting) -> None:
        one, other = await server.connect(), await server.connect()
        await waiting.ask(one, beat(0), beat(1), beat(2))
        await waiting.ask(other, beat(0))
        sends = sends_of(server)
        outbox: Outbox = server.server.outbox
        assert outbox.open()
        for answer in waiting.answers:
            answer.complete(HeartbeatResponse())
        assert [send.sizes for send in sends] == [[], []]
        outbox.close()

        assert [len(send.sizes) for send in sends] == [1, 1]
        assert [(await one.answer(HeartbeatRequest, VERSION))[0] for _ in range(3)] == [0, 1, 2]
        assert (await other.answer(HeartbeatRequest, VERSION))[0] == 0

    scenario(test)


def test_a_large_answer_and_what_comes_after_it_keep_their_places() -> None:
    async def test(server: Any, waiting: Waiting) -> None:
        client = await server.connect()
        await waiting.ask(client, beat(0), ApiVersionsRequest(), beat(2))
        outbox: Outbox = server.server.outbox
        outbox.open()
        names = [SupportedFeatureKey(name="x" * 1_000) for _ in range(JOIN_BYTES_MAX // 1_000 + 1)]
        waiting.answers[2].complete(HeartbeatResponse())
        waiting.answers[1].complete(ApiVersionsResponse(supported_features=names))
        waiting.answers[0].complete(HeartbeatResponse())
        outbox.close()

        assert (await client.answer(HeartbeatRequest, VERSION))[0] == 0
        assert (await client.answer(ApiVersionsRequest, VERSION))[0] == 1
        assert (await client.answer(HeartbeatRequest, VERSION))[0] == 2

    scenario(test)


def test_what_is_held_is_bounded() -> None:
    async def test(server: Any, waiting: Waiting) -> None:
        client = await server.connect()
        await waiting.ask(client, *[ApiVersionsRequest()] * 4)
        (sends,) = sends_of(server)
        names = [SupportedFeatureKey(name="x" * 1_000) for _ in range(JOIN_BYTES_MAX // 1_000 - 1)]
        server.server.outbox.open()
        for answer in waiting.answers:
            answer.complete(ApiVersionsResponse(supported_features=names))
        assert len(sends.sizes) == 2
        server.server.outbox.close()
        assert [(await client.answer(ApiVersionsRequest, VERSION))[0] for _ in range(4)] == [0, 1, 2, 3]

    scenario(test)


def test_what_is_held_leaves_before_the_connection_is_closed_in_good_order() -> None:
    async def test(server: Any, waiting: Waiting) -> None:
        client = await server.connect()
        await waiting.ask(client, beat(0))
        outbox: Outbox = server.server.outbox
        outbox.open()
        waiting.answers[0].complete(HeartbeatResponse())
        (connection,) = server.server.connections
        connection.hang_up()
        outbox.close()

        assert (await client.answer(HeartbeatRequest, VERSION))[0] == 0
        assert await client.hung_up()

    scenario(test)


def test_a_connection_that_is_lost_meanwhile_takes_nothing_with_it() -> None:
    async def test(server: Any, waiting: Waiting) -> None:
        gone, client = await server.connect(), await server.connect()
        await waiting.ask(gone, beat(0))
        await waiting.ask(client, beat(0))
        outbox: Outbox = server.server.outbox
        outbox.open()
        for answer in waiting.answers:
            answer.complete(HeartbeatResponse())
        first, _ = server.server.connections
        first.close("the test says so")
        outbox.close()

        assert (await client.answer(HeartbeatRequest, VERSION))[0] == 0
        assert await gone.hung_up()

    scenario(test)


def test_who_opens_it_first_closes_it() -> None:
    outbox = Outbox()
    assert outbox.open()
    assert not outbox.open()
    outbox.close()
    assert outbox.open()


def has_arrived(client: Client) -> bool:
    """Without giving the loop a turn."""
    return bool(select.select([client.writer.get_extra_info("socket").fileno()], [], [], 0)[0])


def test_an_answer_leaves_before_the_turn_of_the_loop_is_over() -> None:
    """A sync in the same turn does not hold it up: followers rely on that, and so does who closes the outbox."""

    async def test(server: Any, waiting: Waiting) -> None:
        client = await server.connect()
        await waiting.ask(client, beat(0), beat(1))
        waiting.answers[0].complete(HeartbeatResponse())
        assert has_arrived(client)
        await client.answer(HeartbeatRequest, VERSION)

        server.server.outbox.open()
        waiting.answers[1].complete(HeartbeatResponse())
        assert not has_arrived(client)
        server.server.outbox.close()
        assert has_arrived(client)

    scenario(test)

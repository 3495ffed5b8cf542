"""The way to the controller: this node, another, none, or one that has just moved."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.schema import Request
from ottla.runtime import controller_channel
from ottla.runtime.controller_channel import ControllerChannel
from ottla.services import FORWARDED, Deferred

ME = 1
NOBODY = -1
REQUEST = BrokerHeartbeatRequest(broker_id=7)
OK = BrokerHeartbeatResponse(is_fenced=False)
NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Cluster:
    """Where the controller is, as this node sees it, and what was asked of whom."""

    def __init__(self) -> None:
        self.controller_id = NOBODY
        self.is_here = False
        self.addresses = {2: ("two", 9092), 3: ("three", 9092)}
        self.asked: list[tuple[str, Request, Deferred[Any]]] = []
        self.options: list[dict[str, Any]] = []

    def send(self, address: tuple[str, int], request: Request, **options: Any) -> Deferred[Any]:
        self.asked.append((address[0], request, Deferred()))
        self.options.append(options)
        return self.asked[-1][2]

    def here(self, request: Request, version: int | None, client_id: str) -> Deferred[Any]:
        self.asked.append(("here", request, Deferred()))
        self.options.append({"version": version, "client_id": client_id})
        return self.asked[-1][2]

    @property
    def places(self) -> list[str]:
        return [place for place, _, _ in self.asked]

    async def asks(self, count: int) -> Deferred[Any]:
        while len(self.asked) < count:
            await asyncio.sleep(0.001)
        return self.asked[count - 1][2]


@asynccontextmanager
async def a_channel(cluster: Cluster) -> AsyncIterator[ControllerChannel]:
    loop = asyncio.get_running_loop()
    channel = ControllerChannel(
        loop=loop,
        client=cast(Any, cluster),
        node_id=ME,
        is_here=lambda: cluster.is_here,
        controller_id=lambda: cluster.controller_id,
        address_of=cluster.addresses.get,
        serve_here=cluster.here,
    )
    try:
        yield channel
    finally:
        channel.close()


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "LOOK_MS", 2)


def run(test: Callable[[Cluster, ControllerChannel], Awaitable[None]]) -> None:
    async def body() -> None:
        cluster = Cluster()
        async with a_channel(cluster) as channel:
            await asyncio.wait_for(test(cluster, channel), 10)

    asyncio.run(body())


async def done(answer: Deferred[Any]) -> Deferred[Any]:
    while not answer.done:
        await asyncio.sleep(0.001)
    return answer


def test_the_controller_in_this_node_is_asked_without_the_wire() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.is_here = True
        answer = channel.send(REQUEST, timeout_ms=1_000, version=1)
        cluster.asked[0][2].complete(OK)
        assert answer.value is OK
        assert cluster.places == ["here"]
        assert cluster.options == [{"version": 1, "client_id": FORWARDED}]

    run(test)


def test_another_node_is_asked_at_its_address_and_told_not_to_pass_it_on() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 2
        answer = channel.send(REQUEST, timeout_ms=1_000, channel="lifecycle")
        cluster.asked[0][2].complete(OK)
        assert answer.value is OK
        assert cluster.places == ["two"]
        assert cluster.options[0]["client_id"] == FORWARDED
        assert cluster.options[0]["channel"] == "lifecycle"
        assert cluster.options[0]["timeout_ms"] <= 1_000

    run(test)


def test_a_request_waits_until_a_controller_is_known() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        answer = channel.send(REQUEST, timeout_ms=5_000)
        await asyncio.sleep(0.01)
        assert cluster.asked == []
        cluster.controller_id = 3
        (await cluster.asks(1)).complete(OK)
        assert answer.value is OK

    run(test)


def test_a_node_that_was_elected_waits_until_it_may_decide() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.addresses[ME] = ("one", 9092)
        cluster.controller_id = ME
        answer = channel.send(REQUEST, timeout_ms=5_000)
        await asyncio.sleep(0.01)
        assert cluster.asked == []
        cluster.is_here = True
        (await cluster.asks(1)).complete(OK)
        assert cluster.places == ["here"]
        assert answer.value is OK

    run(test)


def test_a_request_waits_until_the_controllers_address_is_known() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 4
        answer = channel.send(REQUEST, timeout_ms=5_000)
        cluster.addresses[4] = ("four", 9092)
        (await cluster.asks(1)).complete(OK)
        assert answer.value is OK

    run(test)


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER])
def test_a_lost_or_misdirected_request_is_sent_again(code: ErrorCode) -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 2
        answer = channel.send(REQUEST, timeout_ms=5_000)
        cluster.asked[0][2].fail(BrokerError(code))
        cluster.controller_id = 3
        (await cluster.asks(2)).complete(NOT_CONTROLLER)
        (await cluster.asks(3)).complete(OK)
        assert answer.value is OK
        assert cluster.places == ["two", "three", "three"]

    run(test)


def test_any_other_refusal_is_the_answer() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 2
        answer = channel.send(REQUEST, timeout_ms=5_000)
        cluster.asked[0][2].fail(BrokerError(ErrorCode.UNSUPPORTED_VERSION))
        assert answer.error is not None
        assert answer.error.code is ErrorCode.UNSUPPORTED_VERSION

    run(test)


def test_a_controller_that_moves_while_it_is_asked_is_followed_and_its_late_answer_ignored() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 2
        answer = channel.send(REQUEST, timeout_ms=5_000)
        cluster.controller_id = 3
        newer = await cluster.asks(2)
        cluster.asked[0][2].complete(BrokerHeartbeatResponse(is_fenced=True))
        assert not answer.done
        newer.complete(OK)
        assert answer.value is OK

    run(test)


def test_losing_sight_of_the_controller_does_not_repeat_what_it_may_still_answer() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        cluster.controller_id = 2
        answer = channel.send(REQUEST, timeout_ms=5_000)
        cluster.controller_id = NOBODY
        await asyncio.sleep(0.02)
        cluster.asked[0][2].complete(OK)
        assert answer.value is OK
        assert cluster.places == ["two"]

    run(test)


def test_time_is_over() -> None:
    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        nobody = await done(channel.send(REQUEST, timeout_ms=20))
        assert nobody.error is not None
        assert nobody.error.code is ErrorCode.REQUEST_TIMED_OUT
        cluster.controller_id = 2
        silent = await done(channel.send(REQUEST, timeout_ms=20))
        assert silent.error is not None
        assert silent.error.code is ErrorCode.REQUEST_TIMED_OUT
        cluster.asked[0][2].complete(OK)

    run(test)


def test_requests_that_wait_are_bounded_and_fail_when_the_node_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "CALLS_MAX", 2)

    async def test(cluster: Cluster, channel: ControllerChannel) -> None:
        waiting = [channel.send(REQUEST, timeout_ms=5_000) for _ in range(3)]
        assert [one.done for one in waiting] == [False, False, True]
        channel.close()
        waiting.append(channel.send(REQUEST, timeout_ms=5_000))
        assert all(one.error is not None for one in waiting)

    run(test)

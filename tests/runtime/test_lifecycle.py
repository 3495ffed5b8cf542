"""A broker's place in its cluster, against a controller that the test plays."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.config import ClusterConfig
from ottla.errors import BrokerError, ConfigError, ErrorCode
from ottla.metadata.brokers import UNFINISHED, BrokerRegistration
from ottla.metadata.image import Endpoint
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.schema import Request
from ottla.runtime import lifecycle as module
from ottla.runtime.lifecycle import NO_EPOCH, Introduction, Lifecycle
from ottla.runtime.timers import Timers
from ottla.services import Deferred

ME = 5
LEASE_MS = 1_000
INTRODUCTION = Introduction(
    broker_id=ME,
    cluster_id="the-cluster",
    incarnation_id=b"i" * 16,
    directory_ids=[b"d" * 16],
    endpoints=[Endpoint("PLAINTEXT", "host", 9092, 0), Endpoint("CLUSTER", "host", 7946, 0)],
    rack="r1",
)
CAUGHT_UP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
FENCED = BrokerHeartbeatResponse(is_fenced=True)


def a_broker(broker_id: int, epoch: int, **state: bool) -> Any:
    flags = {"fenced": False, "in_controlled_shutdown": False} | state
    is_active = not (flags["fenced"] or flags["in_controlled_shutdown"])
    return SimpleNamespace(broker_id=broker_id, broker_epoch=epoch, is_active=is_active, **flags)


class Rig:
    def __init__(self, timers: Timers, register_alone: Any = None) -> None:
        self.image = SimpleNamespace(brokers={})
        self.offset = 10
        self.sent: list[tuple[Request, Deferred[Any]]] = []
        self.broker = Lifecycle(
            introduction=INTRODUCTION,
            config=ClusterConfig(
                broker_heartbeat_interval_ms=10, broker_session_timeout_ms=1_000, broker_lease_ms=LEASE_MS
            ),
            loop=asyncio.get_running_loop(),
            timers=timers,
            channel=cast(Any, self),
            image=lambda: cast(Any, self.image),
            applied_offset=lambda: self.offset,
            register_alone=register_alone,
        )

    def send(self, request: Request, *, timeout_ms: float, channel: str) -> Deferred[Any]:
        assert channel == "lifecycle"
        self.sent.append((request, Deferred()))
        return self.sent[-1][1]

    async def asked(self, kind: type[Request]) -> tuple[Any, Deferred[Any]]:
        """The next request, which must be of this kind."""
        while not self.sent:
            await asyncio.sleep(0.001)
        request, answer = self.sent.pop(0)
        assert type(request) is kind
        return request, answer

    async def registers(self, epoch: int) -> None:
        _, answer = await self.asked(BrokerRegistrationRequest)
        answer.complete(BrokerRegistrationResponse(broker_epoch=epoch))

    async def beats(self, response: BrokerHeartbeatResponse) -> BrokerHeartbeatRequest:
        request, answer = await self.asked(BrokerHeartbeatRequest)
        answer.complete(response)
        return cast(BrokerHeartbeatRequest, request)

    def shows(self, *brokers: Any) -> None:
        self.image.brokers = {broker.broker_id: broker for broker in brokers}
        self.broker.image_changed()

    async def is_in_service(self, epoch: int = 3, *others: Any) -> None:
        starting = asyncio.ensure_future(self.broker.start())
        await self.registers(epoch)
        await self.beats(CAUGHT_UP)
        self.shows(a_broker(ME, epoch), *others)
        await starting


def run(test: Callable[[Rig], Awaitable[None]], **options: Any) -> None:
    async def body() -> None:
        timers = Timers(asyncio.get_running_loop())
        rig = Rig(timers, **options)
        try:
            await asyncio.wait_for(test(rig), 10)
        finally:
            rig.broker.close()
            timers.close()

    asyncio.run(body())


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_MS_MIN", 1)
    monkeypatch.setattr(module, "RETRY_MS_MAX", 4)
    monkeypatch.setattr(module, "HURRY_MS", 2)


def test_a_broker_says_who_it_is() -> None:
    async def test(rig: Rig) -> None:
        starting = asyncio.ensure_future(rig.broker.start())
        request, _ = await rig.asked(BrokerRegistrationRequest)
        assert request.broker_id == ME
        assert request.cluster_id == "the-cluster"
        assert request.incarnation_id == b"i" * 16
        assert [(listener.name, listener.port) for listener in request.listeners] == [
            ("PLAINTEXT", 9092),
            ("CLUSTER", 7946),
        ]
        assert request.log_dirs == [b"d" * 16]
        assert request.rack == "r1"
        assert request.features
        starting.cancel()

    run(test)


def test_it_has_started_when_it_is_let_in_and_its_own_image_says_so() -> None:
    async def test(rig: Rig) -> None:
        starting = asyncio.ensure_future(rig.broker.start())
        await rig.registers(3)
        assert (await rig.beats(FENCED)).current_metadata_offset == 10
        assert rig.broker.is_fenced
        rig.offset = 11
        assert (await rig.beats(CAUGHT_UP)).current_metadata_offset == 11
        rig.shows(a_broker(ME, 2))
        await asyncio.sleep(0.005)
        assert not starting.done()
        rig.shows(a_broker(ME, 3))
        await starting
        assert rig.broker.broker_epoch == 3
        assert not rig.broker.is_fenced

    run(test)


def test_a_fenced_broker_asks_again_as_soon_as_its_metadata_moves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HURRY_MS", 10**6)

    async def test(rig: Rig) -> None:
        starting = asyncio.ensure_future(rig.broker.start())
        await rig.registers(3)
        rig.broker._config = ClusterConfig()
        await rig.beats(FENCED)
        rig.offset = 12
        rig.shows()
        assert rig.sent
        assert (await rig.beats(CAUGHT_UP)).current_metadata_offset == 12
        starting.cancel()

    run(test)


def test_heartbeats_go_on_one_at_a_time() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service()
        for _ in range(3):
            request, answer = await rig.asked(BrokerHeartbeatRequest)
            assert (request.broker_epoch, request.want_shut_down) == (3, False)
            await asyncio.sleep(0.025)
            assert rig.sent == []
            answer.complete(CAUGHT_UP)

    run(test)


@pytest.mark.parametrize(
    "code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NOT_CONTROLLER]
)
def test_a_registration_that_may_still_be_granted_is_repeated(code: ErrorCode) -> None:
    async def test(rig: Rig) -> None:
        starting = asyncio.ensure_future(rig.broker.start())
        first, answer = await rig.asked(BrokerRegistrationRequest)
        answer.complete(BrokerRegistrationResponse(error_code=code))
        second, answer = await rig.asked(BrokerRegistrationRequest)
        answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
        assert first.incarnation_id == second.incarnation_id
        await rig.registers(3)
        await rig.beats(CAUGHT_UP)
        rig.shows(a_broker(ME, 3))
        await starting

    run(test)


def test_a_registration_that_can_not_be_granted_ends_the_start() -> None:
    async def test(rig: Rig) -> None:
        starting = asyncio.ensure_future(rig.broker.start())
        _, answer = await rig.asked(BrokerRegistrationRequest)
        answer.complete(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        with pytest.raises(ConfigError, match="INCONSISTENT_CLUSTER_ID"):
            await starting

    run(test)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_the_controller_does_not_know_any_more_registers_again(code: ErrorCode) -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3)
        await rig.beats(BrokerHeartbeatResponse(error_code=code))
        assert (rig.broker.broker_epoch, rig.broker.is_fenced) == (NO_EPOCH, True)
        await rig.registers(8)
        assert (await rig.beats(CAUGHT_UP)).broker_epoch == 8
        assert not rig.broker.is_fenced

    run(test)


def test_a_lost_heartbeat_is_followed_by_another() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service()
        _, answer = await rig.asked(BrokerHeartbeatRequest)
        answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
        await rig.beats(CAUGHT_UP)
        assert not rig.broker.is_fenced

    run(test)


def test_a_broker_that_was_fenced_asks_to_be_let_in_again() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service()
        await rig.beats(FENCED)
        assert rig.broker.is_fenced
        assert not (await rig.beats(CAUGHT_UP)).want_fence
        assert not rig.broker.is_fenced

    run(test)


def test_leaving_waits_until_the_controller_lets_it_go() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        leaving = asyncio.ensure_future(rig.broker.shutdown(5_000))
        while not (await rig.beats(CAUGHT_UP)).want_shut_down:
            pass
        assert not leaving.done()
        await rig.beats(BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True))
        assert await leaving

    run(test)


def test_leaving_does_not_wait_for_ever() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        assert not await rig.broker.shutdown(20)

    run(test)


def test_a_broker_that_was_removed_may_leave_at_once() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        leaving = asyncio.ensure_future(rig.broker.shutdown(5_000))
        await asyncio.sleep(0)
        while not leaving.done():
            await rig.beats(BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
            await asyncio.sleep(0)
        assert leaving.result()

    run(test)


def test_the_last_broker_in_service_just_leaves() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1, fenced=True))
        assert not await rig.broker.shutdown(1_000)
        assert all(not request.want_shut_down for request, _ in rig.sent if isinstance(request, BrokerHeartbeatRequest))

    run(test)


def test_brokers_that_all_stop_at_once_do_not_wait_for_each_other() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        leaving = asyncio.ensure_future(rig.broker.shutdown(5_000))
        await asyncio.sleep(0)
        assert not leaving.done()
        rig.shows(a_broker(ME, 3, in_controlled_shutdown=True), a_broker(1, 1, in_controlled_shutdown=True))
        await leaving

    run(test)


def test_a_controller_that_is_gone_is_not_waited_for() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        leaving = asyncio.ensure_future(rig.broker.shutdown(5_000))
        await asyncio.sleep(0)
        for _ in range(module.SILENCE_MAX + 1):
            _, answer = await rig.asked(BrokerHeartbeatRequest)
            answer.fail(BrokerError(ErrorCode.REQUEST_TIMED_OUT))
            if leaving.done():
                break
        assert not await leaving

    run(test)


def test_others_say_at_once_how_far_they_are_while_a_broker_waits_to_leave() -> None:
    async def test(rig: Rig) -> None:
        await rig.is_in_service(3, a_broker(1, 1))
        rig.broker._config = ClusterConfig(broker_heartbeat_interval_ms=10**6, broker_session_timeout_ms=10**7)
        await rig.beats(CAUGHT_UP)
        rig.shows(a_broker(ME, 3), a_broker(1, 1))
        assert rig.sent == []
        rig.offset = 77
        rig.shows(a_broker(ME, 3), a_broker(1, 1, in_controlled_shutdown=True))
        assert (await rig.beats(CAUGHT_UP)).current_metadata_offset == 77

    run(test)


def test_a_node_that_nobody_can_join_is_in_service_with_its_registration_and_sends_nothing() -> None:
    asked: list[BrokerRegistration] = []

    def register(registration: BrokerRegistration) -> Deferred[int]:
        asked.append(registration)
        answer: Deferred[int] = Deferred()
        answer.complete(UNFINISHED if len(asked) == 1 else 9)
        return answer

    async def test(rig: Rig) -> None:
        await rig.broker.start()
        assert (rig.broker.broker_epoch, rig.broker.is_fenced) == (9, False)
        assert [registration.fenced for registration in asked] == [False, False]
        rig.shows(a_broker(ME, 9))
        assert await rig.broker.shutdown(0)
        assert rig.sent == []

    run(test, register_alone=register)


def test_a_broker_is_in_touch_as_long_as_the_controller_has_not_given_it_up() -> None:
    async def test(rig: Rig) -> None:
        assert not rig.broker.is_in_touch
        await rig.is_in_service()
        assert rig.broker.is_in_touch
        _, unanswered = await rig.asked(BrokerHeartbeatRequest)
        await asyncio.sleep(LEASE_MS / 1000)
        assert not rig.broker.is_in_touch
        unanswered.complete(CAUGHT_UP)
        assert not rig.broker.is_in_touch, "it counts from when it asked: the answer may have been on its way for long"
        await rig.beats(CAUGHT_UP)
        assert rig.broker.is_in_touch

    run(test)


def test_a_broker_that_is_alone_is_always_in_touch() -> None:
    async def test(rig: Rig) -> None:
        assert rig.broker.is_in_touch

    run(test, register_alone=lambda _registration: Deferred())

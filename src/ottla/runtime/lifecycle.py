"""A broker's place in its cluster, from the registration to the controlled shutdown.

    register ──▶ fenced ──caught up with the metadata──▶ in service ──▶ leaving ──▶ gone
       ▲            └──────────────┬──────────────────────┘
       └── the controller does not know this broker epoch (any more)

Everything goes to the active controller over a connection of its own, one request at a time: a heartbeat that waited
behind a large request would cost the broker its leaderships. A broker that is not in service asks more often, and at
once when its metadata has moved on, so that starting takes as long as it must and no longer.

A node that nobody can join needs no heartbeats: it comes into service with its registration, and there is nobody who
could take over from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, ConfigError, ErrorCode
from ottla.metadata.brokers import UNFINISHED, BrokerRegistration
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.runtime.beats import nearest_beat_ms
from ottla.services import Deferred
from ottla.values import value

if TYPE_CHECKING:
    from ottla.config import ClusterConfig
    from ottla.metadata.image import Endpoint, MetadataImage
    from ottla.runtime.controller_channel import ControllerChannel
    from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

CHANNEL = "lifecycle"
NO_EPOCH = -1
REGISTRATION_MS_MAX = 5_000
HURRY_MS = 50
"""Between two heartbeats of a broker that waits to be let in, or to be let go."""
RETRY_MS_MIN = 50
RETRY_MS_MAX = 1_000
"""Between attempts to register."""
SHUTDOWN_MS_MAX = 30_000
LEAVING_MS_MAX = 1_000
SILENCE_MAX = 3
"""A broker that wants to leave waits so long for the answer to a heartbeat, and gives up after so many without one."""
TELL_AFTER_TRIES = 5

FATAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""A registration that is refused like this will not be granted by asking again."""
NEVER_S = float("-inf")
UNKNOWN_HERE = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


@value
class Introduction:
    """What a broker says of itself."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    directory_ids: Sequence[bytes]
    endpoints: Sequence[Endpoint]
    """Where clients reach it comes first."""
    rack: str | None

    def registration(self, *, fenced: bool) -> BrokerRegistration:
        return BrokerRegistration(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            endpoints=self.endpoints,
            rack=self.rack,
            fenced=fenced,
            log_dirs=self.directory_ids,
        )

    def request(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=security)
                for name, host, port, security in self.endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            rack=self.rack,
            log_dirs=self.directory_ids,
        )


class Lifecycle:
    def __init__(
        self,
        *,
        introduction: Introduction,
        config: ClusterConfig,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        channel: ControllerChannel,
        image: Callable[[], MetadataImage],
        applied_offset: Callable[[], int],
        register_alone: Callable[[BrokerRegistration], Deferred[int]] | None = None,
    ) -> None:
        """`applied_offset`: the last offset of the metadata log that this node's image holds.

        `register_alone`: how a node that nobody can join registers, with its own controller.
        """
        self.broker_epoch = NO_EPOCH
        """Names this process to the controller; NO_EPOCH until it is registered."""
        self.is_fenced = True
        """Whether the controller, when it was last heard, would let this broker lead anything."""
        self._own = introduction
        self._config = config
        self._loop = loop
        self._timers = timers
        self._channel = channel
        self._image = image
        self._applied_offset = applied_offset
        self._register_alone = register_alone
        self._timer: Deadline | None = None
        self._is_asking = False
        self._is_closed = False
        self._wants_to_leave = False
        self._may_leave = False
        self._tries = 0
        self._asked_s = self._answered_s = NEVER_S
        """When the last heartbeat was sent, and when the last one that was answered."""
        self._silence = 0
        """Heartbeats in a row that the controller did not answer, since this broker wants to leave."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    # From outside.

    async def start(self) -> None:
        """Returns when this broker is in service, and its own image says so. Raises ConfigError if it can't be."""
        if self._register_alone is not None:
            await self._start_alone(self._register_alone)
            return
        self._register()
        await self._until(self._is_in_service)

    async def _start_alone(self, register: Callable[[BrokerRegistration], Deferred[int]]) -> None:
        registration = self._own.registration(fenced=False)
        epoch = UNFINISHED
        while epoch == UNFINISHED:
            epoch = await self._answer(register(registration))
        self.broker_epoch = epoch
        self.is_fenced = False

    async def _answer(self, deferred: Deferred[int]) -> int:
        future: asyncio.Future[int] = self._loop.create_future()

        def done(answer: Deferred[int]) -> None:
            if future.done():
                return
            if answer.error is not None:
                future.set_exception(answer.error)
            else:
                future.set_result(answer.value or 0)

        deferred.on_done(done)
        return await future

    async def shutdown(self, timeout_ms: int = SHUTDOWN_MS_MAX) -> bool:
        """Hand over what this broker leads; whether that was done in time. It still serves meanwhile."""
        if self._register_alone is not None or self.broker_epoch == NO_EPOCH or self._is_closed:
            return True
        self._wants_to_leave = True
        if self._somebody_could_take_over():
            self._ask_now()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._until(lambda: self._may_leave or not self._somebody_could_take_over())
        except TimeoutError:
            log.warning("the controller has not let this broker go within %d ms: it leaves without that", timeout_ms)
        return self._may_leave

    @property
    def is_in_touch(self) -> bool:
        """Whether the controller heard of this broker so lately that it has not given it up for its silence."""
        if self._register_alone is not None:
            return True
        return (self._loop.time() - self._answered_s) * 1000 < self._config.broker_lease_ms

    @property
    def is_leaving(self) -> bool:
        """Whether it hands over what it leads, to stop then."""
        return self._wants_to_leave

    def image_changed(self) -> None:
        """This node's metadata has moved on."""
        if self._register_alone is not None:
            return
        self._look()
        if self.is_fenced or self._somebody_waits_to_leave():
            self._ask_now()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            future.cancel()

    # Waiting.

    async def _until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append((condition, future))
            await future

    def _look(self) -> None:
        """Wake those for whom it has come true."""
        for waiter in tuple(self._waiters):
            condition, future = waiter
            if future.done() or condition():
                self._waiters.remove(waiter)
                if not future.done():
                    future.set_result(None)

    def _is_in_service(self) -> bool:
        broker = self._image().brokers.get(self._own.broker_id)
        return (
            not self.is_fenced and broker is not None and broker.broker_epoch == self.broker_epoch and not broker.fenced
        )

    def _somebody_could_take_over(self) -> bool:
        """Not when all brokers stop at once: then there is nothing to wait for."""
        if self._silence >= SILENCE_MAX:
            return False
        own = self._own.broker_id
        return any(broker.is_active for broker in self._image().brokers.values() if broker.broker_id != own)

    def _somebody_waits_to_leave(self) -> bool:
        """A broker may stop once all others know that it leads nothing any more: so they say so at once."""
        return any(broker.in_controlled_shutdown and not broker.fenced for broker in self._image().brokers.values())

    # Registering.

    def _register(self) -> None:
        self._is_asking = True
        sent = self._channel.send(self._own.request(), timeout_ms=REGISTRATION_MS_MAX, channel=CHANNEL)
        sent.on_done(self._registered)

    def _registered(self, done: Deferred[BrokerRegistrationResponse]) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        code = _code(done)
        if code is not ErrorCode.NONE or done.value is None:
            self._not_registered(code, done.error)
            return
        self._tries = 0
        self.broker_epoch = done.value.broker_epoch
        log.info("broker %d is registered with epoch %d", self._own.broker_id, self.broker_epoch)
        self._heartbeat()

    def _not_registered(self, code: ErrorCode, error: BrokerError | None) -> None:
        why = str(error) if error is not None else code.name
        if code in FATAL and self._waiters and not self._wants_to_leave:
            self._give_up(ConfigError(f"the cluster does not take this node: {why}"))
            return
        self._tries += 1
        if self._tries % TELL_AFTER_TRIES == 1:
            log.warning("broker %d could not be registered yet: %s", self._own.broker_id, why)
        delay_ms = min(RETRY_MS_MAX, RETRY_MS_MIN << min(self._tries, 10))
        self._set_timer(delay_ms, self._register)

    def _give_up(self, error: ConfigError) -> None:
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_exception(error)

    # Heartbeats.

    def _ask_now(self) -> None:
        """Unless an answer is under way: the next question follows it at once."""
        if not self._is_asking and self.broker_epoch != NO_EPOCH and not self._is_closed:
            self._heartbeat()

    def _heartbeat(self) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self._own.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._applied_offset(),
            want_shut_down=self._wants_to_leave,
        )
        self._cancel_timer()
        self._is_asking = True
        self._asked_s = self._loop.time()
        sent = self._channel.send(request, timeout_ms=self._patience_ms(), channel=CHANNEL)
        sent.on_done(self._heard)

    def _patience_ms(self) -> int:
        if self._wants_to_leave:
            return LEAVING_MS_MAX
        return max(self._config.broker_session_timeout_ms // 3, 2 * self._config.broker_heartbeat_interval_ms)

    def _heard(self, done: Deferred[BrokerHeartbeatResponse]) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        code = _code(done)
        if code in UNKNOWN_HERE:
            self._forgotten(code)
            return
        if code is ErrorCode.NONE and done.value is not None:
            self._take(done.value)
        else:
            self._silence += self._wants_to_leave
            self._look()
            log.debug("heartbeat of broker %d: %s", self._own.broker_id, done.error or code.name)
        if not self._is_asking:
            self._set_timer(self._until_next_ms(), self._heartbeat)

    def _forgotten(self, code: ErrorCode) -> None:
        """Somebody removed this broker from the cluster, or another process has registered under its id."""
        log.warning("the controller does not know broker %d any more (%s)", self._own.broker_id, code.name)
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True
        if self._wants_to_leave:
            self._may_leave = True
            self._look()
            return
        self._set_timer(RETRY_MS_MIN, self._register)

    def _take(self, answer: BrokerHeartbeatResponse) -> None:
        self._answered_s = self._asked_s
        if self.is_fenced and not answer.is_fenced:
            log.info("broker %d is in service", self._own.broker_id)
        elif answer.is_fenced and not self.is_fenced and not self._wants_to_leave:
            log.warning("broker %d has been fenced: it asks to be let in again", self._own.broker_id)
        self.is_fenced = answer.is_fenced
        self._may_leave = self._wants_to_leave and answer.should_shut_down
        self._look()

    def _until_next_ms(self) -> int:
        interval_ms = self._config.broker_heartbeat_interval_ms
        if (self.is_fenced or self._wants_to_leave) and not self._may_leave:
            return min(HURRY_MS, interval_ms)
        now_ms = round(self._loop.time() * 1000)
        return nearest_beat_ms(now_ms + interval_ms, interval_ms) - now_ms

    def _set_timer(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._timers.after_ms(delay_ms, action)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _code(done: Deferred[Any]) -> ErrorCode:
    if done.error is not None:
        return done.error.code
    return ErrorCode.UNKNOWN_SERVER_ERROR if done.value is None else ErrorCode(done.value.error_code)

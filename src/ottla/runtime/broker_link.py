"""The requests to one address over one channel, whatever happens to the connection.

    idle ──send──▶ connecting ──▶ negotiating ──▶ ready ──lost──▶ idle
                        └──────────────┴── failed ──▶ backing off ──▶ connecting, or idle if nothing waits

What is sent while there is no connection waits for one; when the attempt fails, all that waits fails with it, and what
is sent then waits for the next attempt. The first exchange on a connection is ApiVersions, so that both sides speak a
version that they know, also while a cluster is being upgraded node by node.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.runtime.broker_wire import Pending, Way, Wire
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.protocol.one_fetch import OneFetch
    from ottla.protocol.schema import Request
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.timers import Deadline

log = logging.getLogger(__name__)

Address = tuple[str, int]

CONNECT_MS_MAX = 3_000
"""For the connection, and again for the answer to ApiVersions."""
RETRY_MS_MIN = 25
RETRY_MS_MAX = 500
"""Between attempts to connect: doubled each time, and up to a quarter more at random."""
REQUESTS_MAX = 1_000
"""Requests of one link that may wait; a further one is refused at once."""
SOFTWARE_NAME = "ottla-broker"
NEVER = float("inf")
ERROR_CODE = struct.Struct(">h")
UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION)


class Link:
    def __init__(self, client: BrokerClient, address: Address, channel: str) -> None:
        self.address = address
        self.channel = channel
        self.connecting: asyncio.Task[None] | None = None
        self._client = client
        self._queue: deque[Pending] = deque()
        """Not sent yet."""
        self._wire: Wire | None = None
        self._is_ready = False
        self._is_closed = False
        self._failures = 0
        self._retry: Deadline | None = None
        self._alarm: Deadline | None = None
        self._alarm_at = NEVER
        self._served: dict[int, tuple[int, int]] = {}
        """What the peer serves: API key → its versions."""
        self._ways: dict[tuple[type[Request | OneFetch], int | None], Way] = {}

    # Sending.

    def send(self, pending: Pending) -> None:
        wire = self._wire
        waiting = len(self._queue) + (0 if wire is None else len(wire.line))
        if waiting >= REQUESTS_MAX:
            _fail(pending, ErrorCode.NETWORK_EXCEPTION, f"{waiting} requests to {self} wait already")
            return
        if pending.deadline < self._alarm_at:
            self._set_alarm(pending.deadline)
        if self._is_ready and wire is not None and not wire.is_choked and not self._queue:
            self._write(wire, pending)
            return
        self._queue.append(pending)
        self._connect()

    def _write(self, wire: Wire, pending: Pending) -> None:
        request = pending.request
        if request is None:
            return
        try:
            key = (type(request), pending.version)
            way = self._ways.get(key) or self._find_way(*key)
            wire.write(pending, way)
        except BrokerError as error:
            _fail(pending, error.code, error.message)
        except Exception as error:  # a message that can't be encoded is a bug of the sender's, and its alone
            log.exception("%s can't be sent to %s", type(request).__name__, self)
            _fail(pending, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))

    def _find_way(self, request: type[Request | OneFetch], wanted: int | None) -> Way:
        low, high = self._served.get(request.api_key, (0, -1))
        version = min(high, request.versions[1]) if wanted is None else wanted
        if not max(low, request.versions[0]) <= version <= min(high, request.versions[1]):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self} does not serve {request.__name__}"
                if high < 0
                else f"{self} serves {request.__name__} in versions {low} to {high} only",
            )
        way = self._ways[request, wanted] = Way(request, version)
        return way

    def has_room(self, wire: Wire) -> None:
        while self._queue and self._is_ready and wire.is_open and not wire.is_choked:
            self._write(wire, self._queue.popleft())

    # Connecting.

    def _connect(self) -> None:
        """Unless that is under way, or must wait."""
        if self._wire is None and self.connecting is None and self._retry is None and not self._is_closed:
            self.connecting = self._client.loop.create_task(self._open())

    async def _open(self) -> None:
        why = ""
        try:
            async with asyncio.timeout(CONNECT_MS_MAX / 1000):
                await self._client.loop.create_connection(self._new_wire, *self.address)
        except TimeoutError:
            why = f"no connection after {CONNECT_MS_MAX} ms"
        except (OSError, ValueError) as error:  # ValueError: a host name that can't be one
            why = getattr(error, "strerror", None) or str(error)
        finally:
            self.connecting = None
        if why and self._wire is not None:
            self._wire.abort(why)  # made as its time was up: uvloop has closed it, and has told nobody
        elif why:
            self._failed(why, ())
        elif self._queue:
            self._connect()

    def _new_wire(self) -> Wire:
        limits = self._client.limits
        return Wire(
            self,
            self._client.scratch,
            answer_bytes_max=limits.frame_size_bytes_max,
            send_buffer_bytes_max=limits.send_buffer_bytes_max,
        )

    def opened(self, wire: Wire) -> None:
        if self._is_closed:
            wire.abort("this node is stopping")
            return
        self._wire = wire
        self._negotiate(wire, ApiVersionsRequest.versions[1])

    def _negotiate(self, wire: Wire, version: int) -> None:
        answer: Deferred[ApiVersionsResponse] = Deferred()
        answer.on_done(lambda done: self._negotiated(wire, done.value, version))
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="unknown")
        deadline = self._client.loop.time() + CONNECT_MS_MAX / 1000
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        way = Way(ApiVersionsRequest, version)
        way.decode = _decode_api_versions(version)
        wire.write(Pending(request, version, self._client.client_id, deadline, answer), way)

    def _negotiated(self, wire: Wire, answer: ApiVersionsResponse | None, version: int) -> None:
        if answer is None:
            return
        self._served = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            _, high = self._served.get(ApiVersionsRequest.api_key, (0, 0))
            self._negotiate(wire, max(0, min(high, version - 1)))
            return
        if answer.error_code:
            wire.abort(f"it answers ApiVersions with error {answer.error_code}")
            return
        self._ways.clear()
        self._is_ready = True
        self._failures = 0
        self.has_room(wire)

    # Losing.

    def lost(self, wire: Wire, why: str) -> None:
        if wire is not self._wire:
            return
        cut_off = tuple(wire.line)
        wire.line.clear()
        was_ready = self._is_ready
        was_idle = was_ready and not cut_off
        self._wire = None
        self._is_ready = False
        if was_ready and cut_off and not self._is_closed:
            self._client.on_lost(self.address)
        if not was_idle:
            self._failed(why, cut_off)
        elif self._queue:
            self._connect()
        else:
            self._end()

    def _failed(self, why: str, cut_off: tuple[Pending, ...]) -> None:
        """Tell all who wait, and let some time pass before the next attempt."""
        log.debug("%s: %s", self, why)
        waiting = (*cut_off, *self._queue)
        self._queue.clear()
        self._back_off()
        for pending in waiting:
            _fail(pending, ErrorCode.NETWORK_EXCEPTION, f"{self}: {why}")

    def _back_off(self) -> None:
        if self._is_closed:
            return
        delay_ms = min(RETRY_MS_MAX, RETRY_MS_MIN << min(self._failures, 10))
        self._failures += 1
        delay_ms += self._client.random.randint(0, delay_ms // 4)
        self._retry = self._client.timers.after_ms(delay_ms, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._queue:
            self._connect()
        else:
            self._end()

    def _end(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._client.forget(self)

    def close(self) -> None:
        self._is_closed = True
        for timer in (self._retry, self._alarm):
            if timer is not None:
                timer.cancel()
        if self.connecting is not None:
            self.connecting.cancel()
        if self._wire is not None:
            self._wire.abort("this node is stopping")
        waiting = tuple(self._queue)
        self._queue.clear()
        for pending in waiting:
            _fail(pending, ErrorCode.NETWORK_EXCEPTION, "this node is stopping")

    # Time limits: one timer, for the earliest of them.

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        delay_ms = max(0.0, (at - self._client.loop.time()) * 1000)
        self._alarm = self._client.timers.after_ms(delay_ms, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._alarm_at = NEVER
        now = self._client.loop.time()
        late = [pending for pending in self._waiting() if pending.deadline <= now]
        self._queue = deque(pending for pending in self._queue if pending.deadline > now)
        next_at = min((pending.deadline for pending in self._waiting() if pending.deadline > now), default=NEVER)
        if next_at < NEVER:
            self._set_alarm(next_at)
        wire = self._wire
        silent = wire is not None and any(p.number >= 0 and not wire.has_heard_since(p) for p in late)
        for pending in late:
            _fail(pending, ErrorCode.REQUEST_TIMED_OUT, f"{self} did not answer in time")
        if silent and wire is not None:
            wire.abort("it gives no sign of life")

    def _waiting(self) -> Iterator[Pending]:
        if self._wire is not None:
            yield from (pending for pending in self._wire.line if pending.answer is not None)
        yield from self._queue

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"


def _decode_api_versions(version: int) -> Callable[..., tuple[ApiVersionsResponse, int]]:
    """A broker that does not know the version says so in version 0."""

    def decode(frame: memoryview, at: int) -> tuple[ApiVersionsResponse, int]:
        refused = len(frame) >= at + ERROR_CODE.size and ERROR_CODE.unpack_from(frame, at)[0] == UNSUPPORTED_VERSION
        return codec_for(ApiVersionsResponse, 0 if refused else version).decode(frame, at)

    return decode


def _fail(pending: Pending, code: ErrorCode, message: str) -> None:
    answer = pending.answer
    if answer is None:
        return
    pending.answer = None
    try:
        answer.fail(BrokerError(code, message))
    except Exception:  # a bug of the one who waits must not take other answers with it
        log.exception("what waited for an answer failed")

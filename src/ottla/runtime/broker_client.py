"""Requests to other brokers, over connections that come and go by themselves.

    send ──▶ Link (one per address and channel) ──▶ Wire (one connection)

A request gets exactly one answer: the peer's, or NETWORK_EXCEPTION when the connection broke or never came to be, or
REQUEST_TIMED_OUT. A request that was cut off may or may not have been carried out. Nothing is sent twice: whoever wants
that asks again, and may do so at once, since a link waits between attempts to connect.

Requests on one connection are answered in order, so what must not wait for others goes over a channel of its own. There
is no task, future or timer per request: a task exists while a connection is being made, and a link has one timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, ErrorCode
from ottla.runtime.broker_link import Link
from ottla.runtime.broker_wire import Pending
from ottla.runtime.connection import SCRATCH_BYTES
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.config import NetworkConfig
    from ottla.ports import Random
    from ottla.protocol.one_fetch import OneFetch
    from ottla.protocol.schema import Request
    from ottla.runtime.broker_link import Address
    from ottla.runtime.timers import Timers


class BrokerClient:
    """All links of one node to others."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        random: Random,
        limits: NetworkConfig,
        client_id: str,
    ) -> None:
        self.loop = loop
        self.timers = timers
        self.random = random
        self.limits = limits
        self.client_id = client_id.encode()
        self.on_lost: Callable[[Address], None] = lambda _address: None
        """Given an address whose connection has ended while something was asked there."""
        self._scratch: memoryview | None = None
        self._links: dict[tuple[Address, str], Link] = {}
        self._is_closed = False

    @property
    def scratch(self) -> memoryview:
        """What all connections read into: only one is being read at a time. A node without others has none."""
        if self._scratch is None:
            self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        return self._scratch

    def send(
        self,
        address: Address,
        request: Request | OneFetch,
        *,
        version: int | None = None,
        timeout_ms: float,
        channel: str = "",
        client_id: str | None = None,
    ) -> Deferred[Any]:
        """Ask the broker at `address`; in the newest version that both sides know unless one is given.

        Record data in the answer is valid while the listener runs. The answer, if it is an error, may be there when
        this returns; UNSUPPORTED_VERSION if the peer does not serve the API in that version. A peer that gives no sign
        of life for `timeout_ms` is hung up on, which fails what else waits on that channel: so not too short a time.
        """
        answer: Deferred[Any] = Deferred()
        if self._is_closed:
            answer.fail(BrokerError(ErrorCode.NETWORK_EXCEPTION, "this node is stopping"))
            return answer
        key = (address, channel)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(self, address, channel)
        name = self.client_id if client_id is None else client_id.encode()
        link.send(Pending(request, version, name, self.loop.time() + timeout_ms / 1000, answer))
        return answer

    def forget(self, link: Link) -> None:
        """A link that has nothing to do costs nothing: the next request makes a new one."""
        self._links.pop((link.address, link.channel), None)

    @property
    def links(self) -> int:
        """How many are in use."""
        return len(self._links)

    async def close(self) -> None:
        """What waits fails, and no request is taken any more."""
        self._is_closed = True
        links = list(self._links.values())
        connecting = [link.connecting for link in links if link.connecting is not None]
        for link in links:
            link.close()
        self._links.clear()
        await asyncio.gather(*connecting, return_exceptions=True)

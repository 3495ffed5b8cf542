"""Datagrams between simulated machines: late, lost, doubled and out of order, and none at all over a link that is cut.

What arrives for a process that is stopped waits in the system's buffer, up to its size.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.testing.sim_socket import SimSocket

if TYPE_CHECKING:
    from random import Random

    from ottla.testing.sim_links import Links
    from ottla.testing.sim_loop import SimLoop
    from ottla.testing.sim_world import World

RECEIVE_BUFFER_BYTES = 208 * 1024
"""Linux's default."""
DATAGRAM_BYTES_MAX = 65_507

Address = tuple[str, int]


class DatagramEndpoint(asyncio.DatagramTransport):
    """What `create_datagram_endpoint` returns: a UDP socket."""

    def __init__(self, mail: Mail, loop: SimLoop, protocol: asyncio.DatagramProtocol, address: Address) -> None:
        """`address` is where it is bound, as a socket shows it."""
        super().__init__({"sockname": address, "socket": SimSocket(address)})
        self.loop = loop
        self.address = address
        self._mail = mail
        self._protocol = protocol
        self._inbox: deque[tuple[bytes, Address]] = deque()
        self._inbox_bytes = 0
        self._is_closing = False

    def begin(self) -> None:
        self._protocol.connection_made(self)

    def sendto(self, data: bytes | bytearray | memoryview[Any], addr: Any = None) -> None:
        if len(data) > DATAGRAM_BYTES_MAX:
            self.loop.call_soon(self._protocol.error_received, OSError(90, "message too long"))
        elif not self._is_closing:
            self._mail.send(self, bytes(data), addr)

    def arrived(self, data: bytes, source: Address) -> None:
        if self._is_closing or self._inbox_bytes + len(data) > RECEIVE_BUFFER_BYTES:
            return
        self._inbox.append((data, source))
        self._inbox_bytes += len(data)
        self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        data, source = self._inbox.popleft()
        self._inbox_bytes -= len(data)
        if not self._is_closing:
            self._protocol.datagram_received(data, source)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._mail.unbind(self)
            self.loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def get_write_buffer_size(self) -> int:
        return 0


class Mail:
    """All endpoints, and what is under way between them."""

    def __init__(self, world: World, links: Links) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self._world = world
        self._links = links
        self._dice: Random = world.dice("datagrams")
        self._endpoints: dict[Address, DatagramEndpoint] = {}

    def bind(self, endpoint: DatagramEndpoint) -> bool:
        """False if the port is taken."""
        return self._endpoints.setdefault(endpoint.address, endpoint) is endpoint

    def unbind(self, endpoint: DatagramEndpoint) -> None:
        if self._endpoints.get(endpoint.address) is endpoint:
            del self._endpoints[endpoint.address]

    def process_died(self, loop: SimLoop) -> None:
        for endpoint in tuple(self._endpoints.values()):
            if endpoint.loop is loop:
                self.unbind(endpoint)

    def send(self, source: DatagramEndpoint, data: bytes, to: Address) -> None:
        self.sent += 1
        self.sent_bytes += len(data)
        try:
            host = self._links.resolve(to[0], asked_by=source.loop.host)
        except OSError:
            return
        link = self._links.between(source.loop.host, host)
        if link.loss and self._dice.random() < link.loss:
            return
        copies = 2 if link.duplication and self._dice.random() < link.duplication else 1
        for _ in range(copies):
            delay_s = self._dice.uniform(link.delay_s_min, link.delay_s_max)
            self._world.after(delay_s, self._arrive, source, data, host, to[1])

    def _arrive(self, source: DatagramEndpoint, data: bytes, host: str, port: int) -> None:
        if not self._links.passes(source.loop.host, host):
            return
        target = self._endpoints.get((self._links.number_of(host), port))
        if target is not None and target.loop.is_alive:
            self._world.note_detail(source.loop.host, f"~{host} {len(data)} bytes ({zlib.crc32(data):08x}) arrive")
            target.arrived(data, source.address)

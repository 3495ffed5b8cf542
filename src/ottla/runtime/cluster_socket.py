"""The UDP socket of a node's cluster port: gossip and founding share it.

Anything can arrive here, and whom to send to is what others say; so nothing that is read here may raise, and no name
is ever looked up on the way out, which would stop the event loop for as long as a name server takes.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from ottla.errors import PortTakenError
from ottla.membership import Address
from ottla.membership.founding_wire import is_founding

Listener = Callable[[bytes, Address], None]


class ClusterSocket(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.on_founding: Listener = _ignore
        self.on_gossip: Listener = _ignore
        self.unsendable = 0
        """Packets that the system would not take, or whose address is none."""
        self._transport: asyncio.DatagramTransport | None = None
        self._lost = asyncio.Event()

    @classmethod
    async def open(
        cls, loop: asyncio.AbstractEventLoop, address: str, port: int, *, buffer_bytes: int
    ) -> ClusterSocket:
        try:
            _, protocol = await loop.create_datagram_endpoint(cls, local_addr=(address, port))
        except OSError as error:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # uvloop tells it so
            if cause.errno == errno.EADDRINUSE:
                raise PortTakenError(f"UDP port {port} on {address} is taken by another process") from error
            raise PortTakenError(f"can't listen on {address}, UDP port {port}: {cause.strerror or cause}") from error
        protocol._grow_buffers(buffer_bytes)
        return protocol

    def _grow_buffers(self, size_bytes: int) -> None:
        """As far as the system allows."""
        held = self._info("socket")
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            held.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def _info(self, name: str) -> Any:
        assert self._transport is not None
        return self._transport.get_extra_info(name)

    @property
    def port(self) -> int:
        bound: int = self._info("sockname")[1]
        return bound

    def send(self, to: Address, packet: bytes) -> None:
        """It may get lost, here as anywhere."""
        if self._transport is None or self._transport.is_closing():
            return
        if not is_literal(to.host):
            self.unsendable += 1
            return
        try:
            self._transport.sendto(packet, to)
        except (OSError, ValueError):
            self.unsendable += 1

    def close(self) -> None:
        self.on_founding = self.on_gossip = _ignore
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        """Returns when the port is free again."""
        if self._transport is not None:
            await self._lost.wait()

    # The event loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        listener = self.on_founding if is_founding(data) else self.on_gossip
        listener(data, Address(addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """Of a packet that was sent before: the network says that it can't be delivered."""
        self.unsendable += 1


def _ignore(_packet: bytes, _sender: Address) -> None:
    """Nobody listens yet, or any more."""


@lru_cache(maxsize=4_096)
def is_literal(host: str) -> bool:
    """Whether it is an address in numbers."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False

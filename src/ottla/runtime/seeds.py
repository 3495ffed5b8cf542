"""Where other nodes may be: names, and the addresses that they lead to at the moment.

A name is looked up when it is first asked for, and again each time somebody still looks for the node behind it after a
while: containers come back under other addresses.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable

from ottla.config.seeds import split_seed
from ottla.membership import Address
from ottla.ports import Clock
from ottla.runtime.cluster_socket import is_literal

log = logging.getLogger(__name__)

LOOK_UP_EVERY_MS = 2_000


class Seeds:
    def __init__(self, *, loop: asyncio.AbstractEventLoop, clock: Clock, is_ipv6: bool) -> None:
        self._loop = loop
        self._clock = clock
        self._family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        self._known: dict[str, Address] = {}
        self._looked_ms: dict[str, int] = {}
        self._unknown: set[str] = set()
        """Names that nobody knew when they were last looked up: said once."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_found: Callable[[str], None] = _ignore
        """A name leads somewhere else than before."""

    def address(self, name: str) -> Address | None:
        """Where `host:port` was when it was last looked up, which may be happening just now."""
        host, port = split_seed(name)
        if is_literal(host):
            return Address(host, port)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms.get(name, -LOOK_UP_EVERY_MS) >= LOOK_UP_EVERY_MS:
            self._looked_ms[name] = now_ms
            task = self._loop.create_task(self._look_up(name, host, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._known.get(name)

    def last_known(self, name: str) -> Address | None:
        """The same without looking it up."""
        host, port = split_seed(name)
        return Address(host, port) if is_literal(host) else self._known.get(name)

    def addresses(self, names: Iterable[str]) -> list[Address]:
        found = (self.address(name) for name in names)
        return [address for address in found if address is not None]

    async def resolve(self, name: str) -> Address | None:
        """Look it up now."""
        host, port = split_seed(name)
        if is_literal(host):
            return Address(host, port)
        await self._look_up(name, host, port)
        return self._known.get(name)

    async def _look_up(self, name: str, host: str, port: int) -> None:
        try:
            found = await self._loop.getaddrinfo(host, port, family=self._family, type=socket.SOCK_DGRAM)
        except OSError as error:
            if name not in self._unknown:
                self._unknown.add(name)
                log.warning("%s: nobody knows the address of %s (%s)", name, host, error.strerror or error)
            return
        if not found:
            return
        self._unknown.discard(name)
        shown = found[0][4]
        address = Address(str(shown[0]), int(shown[1]))
        if self._known.get(name) != address:
            self._known[name] = address
            self.on_found(name)

    def close(self) -> None:
        self.on_found = _ignore
        for task in self._tasks:
            task.cancel()


def _ignore(_name: str) -> None:
    """Nobody waits for it."""

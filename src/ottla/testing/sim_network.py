"""A network between simulated machines: connections that are late, broken, cut or half dead, all from the seed.

Every machine has a name and a number, and a process listens on a port of it. A link can be cut in one direction or in
both; what is under way then waits, as TCP would send it again, and arrives when the link is healed. A machine that
loses its power says nothing: whoever talks to it learns of that when it is up again and knows nothing of the
connection. A process that is killed leaves a system behind that resets its connections.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.testing.sim_datagrams import DatagramEndpoint, Mail
from ottla.testing.sim_links import Link, Links, Way
from ottla.testing.sim_socket import SimSocket
from ottla.testing.sim_transport import Pipe, SimTransport

if TYPE_CHECKING:
    from ottla.testing.sim_loop import SimLoop
    from ottla.testing.sim_world import World

CONNECT_TIMEOUT_S = 10.0
FIRST_FREE_PORT = 20_000

Factory = Callable[[], asyncio.BaseProtocol]
Connected = tuple[asyncio.BaseTransport, asyncio.BaseProtocol]


class Listener:
    """What `create_server` returns: the part of `asyncio.Server` that a node uses."""

    def __init__(self, network: Network, loop: SimLoop, factory: Factory, port: int) -> None:
        self.loop = loop
        self.factory = factory
        self.port = port
        self.is_serving = False
        self.sockets = (SimSocket((network.links.number_of(loop.host), port)),)
        self._network = network

    async def start_serving(self) -> None:
        self.is_serving = True

    def close(self) -> None:
        self._network.unbind(self)

    async def wait_closed(self) -> None:
        """Nothing to wait for."""


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.links = Links(world)
        self.mail = Mail(world, self.links)
        self.writes: Counter[tuple[str, int]] = Counter()
        """How often something was written to a connection, either way, by the machine and port that listens."""
        self._dice = world.dice("network")
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._pipes: dict[Pipe, None] = {}
        self._numbers = count(1)
        self._ports = count(FIRST_FREE_PORT)

    # For loops.

    def listen(
        self, loop: SimLoop, factory: Factory, host: str, port: int, *, start_serving: bool = True, **_options: Any
    ) -> Listener:
        port = port or next(self._ports)
        if (loop.host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{host}:{port} is in use")
        listener = self._listeners[loop.host, port] = Listener(self, loop, factory, port)
        listener.is_serving = start_serving
        return listener

    def unbind(self, listener: Listener) -> None:
        key = (listener.loop.host, listener.port)
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def open_mailbox(self, loop: SimLoop, protocol: asyncio.DatagramProtocol, port: int) -> DatagramEndpoint:
        number = self.links.number_of(loop.host)
        endpoint = DatagramEndpoint(self.mail, loop, protocol, (number, port or next(self._ports)))
        if not self.mail.bind(endpoint):
            raise OSError(errno.EADDRINUSE, f"{loop.host}:{port} is in use")
        loop.call_soon(endpoint.begin)
        return endpoint

    async def connect(self, loop: SimLoop, factory: Factory, host: str, port: int, **_options: Any) -> Connected:
        host = self.links.resolve(host, asked_by=loop.host)
        connected: asyncio.Future[Connected] = loop.create_future()

        def give_up() -> None:
            if not connected.done():
                connected.set_exception(TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer"))

        timer = loop.call_later(CONNECT_TIMEOUT_S, give_up)
        self.world.after(self.delay_s(loop.host, host), self._knock, loop, factory, host, port, connected)
        try:
            return await connected
        finally:
            timer.cancel()

    def _knock(
        self, loop: SimLoop, factory: Factory, host: str, port: int, connected: asyncio.Future[Connected]
    ) -> None:
        if not self.links.passes(loop.host, host) or not self.links.passes(host, loop.host):
            return
        listener = self._listeners.get((host, port))
        if listener is None or not listener.is_serving or not listener.loop.is_alive:
            self.world.after(self.delay_s(host, loop.host), _refuse, connected, host, port)
            return
        here, there = (self.links.number_of(loop.host), next(self._ports)), (self.links.number_of(host), port)
        ours = SimTransport(loop, own=here, peer=there)
        theirs = SimTransport(listener.loop, own=there, peer=here)
        number = next(self._numbers)
        self._join(ours, theirs, f"#{number}", (host, port))
        self._join(theirs, ours, f"#{number}'", (host, port))
        self.world.note(loop.host, f"connects to {host}:{port} as #{number}")
        listener.loop.call_soon(lambda: theirs.begin(listener.factory()))
        self.world.after(self.delay_s(host, loop.host), loop.call_soon, _welcome, ours, factory, connected)

    def _join(self, source: SimTransport, target: SimTransport, name: str, listener: tuple[str, int]) -> None:
        pipe = source.out = target.into = Pipe(self, source, target, name, listener)
        self._pipes[pipe] = None

    # For pipes.

    def delay_s(self, source: str, target: str) -> float:
        link = self.links.between(source, target)
        return self._dice.uniform(link.delay_s_min, link.delay_s_max)

    def forget(self, pipe: Pipe) -> None:
        self._pipes.pop(pipe, None)

    # Faults.

    def cut(self, *ways: Way) -> None:
        """Nothing that is sent these ways arrives from now on."""
        self.links.cut(ways)

    def mend(self, *ways: Way) -> None:
        """What waited on these ways arrives, unless another cut keeps it."""
        self.links.mend(ways)
        self._resume(ways)

    def change(self, ways: Iterable[Way], link: Link) -> None:
        self.links.change(ways, link)

    def change_back(self, ways: Iterable[Way], link: Link) -> None:
        self.links.change_back(ways, link)

    def heal(self) -> None:
        """All cuts are mended, all links are as usual, and what waited arrives."""
        self.links.mend_all()
        for pipe in tuple(self._pipes):
            pipe.resume()

    def _resume(self, ways: Iterable[Way]) -> None:
        either = {way for source, target in ways for way in ((source, target), (target, source))}
        for pipe in tuple(self._pipes):
            if (pipe.source.loop.host, pipe.target.loop.host) in either:
                pipe.resume()

    def reset_one(self) -> None:
        """A connection breaks, for both of its ends."""
        open_pipes = [pipe for pipe in self._pipes if pipe.source.is_open]
        if open_pipes:
            pipe = self._dice.choice(open_pipes)
            self.world.note("network", f"{pipe.name} breaks")
            pipe.source.lose(ConnectionResetError(errno.ECONNRESET, "broken by the network"))
            pipe.target.lose(ConnectionResetError(errno.ECONNRESET, "broken by the network"))

    def process_died(self, loop: SimLoop) -> None:
        """The system resets the connections of a process that was killed."""
        self._unbind_all(loop)
        for pipe in tuple(self._pipes):
            if pipe.source.loop is loop:
                pipe.source.vanish()
                pipe.reset()

    def power_lost(self, loop: SimLoop) -> None:
        """A machine is dark: nobody is told."""
        self._unbind_all(loop)
        self.links.darken(loop.host)
        for pipe in tuple(self._pipes):
            if pipe.source.loop is loop:
                pipe.source.vanish()
                pipe.orphan()
                self.forget(pipe)

    def power_back(self, host: str) -> None:
        """Whoever still talks to what ran there before learns now that it is gone."""
        self.links.lighten(host)
        for pipe in tuple(self._pipes):
            if host in (pipe.source.loop.host, pipe.target.loop.host):
                pipe.resume()

    def _unbind_all(self, loop: SimLoop) -> None:
        self.mail.process_died(loop)
        for listener in tuple(self._listeners.values()):
            if listener.loop is loop:
                self.unbind(listener)


def _refuse(connected: asyncio.Future[Connected], host: str, port: int) -> None:
    if not connected.done():
        connected.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}"))


def _welcome(ours: SimTransport, factory: Factory, connected: asyncio.Future[Connected]) -> None:
    if connected.done():
        ours.abort()
        return
    protocol = factory()
    ours.begin(protocol)
    connected.set_result((ours, protocol))

"""Cluster ports on real sockets, without nodes: for tests of forming and gossip."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from ottla.config import GossipConfig
from ottla.membership import Address, Load
from ottla.membership.member import NO_LOAD
from ottla.runtime.clock import SystemClock
from ottla.runtime.cluster_socket import ClusterSocket
from ottla.runtime.forming import Forming
from ottla.runtime.gossip import Gossip
from ottla.runtime.identity import Identity
from ottla.runtime.seeds import Seeds
from ottla.runtime.timers import Timers
from ottla.testing.disk import CrashingDisk

HOST = "127.0.0.1"
LIMIT_S = 20


class Port:
    """What a node has behind its cluster port."""

    def __init__(self, node_id: int, socket: ClusterSocket, disk: CrashingDisk | None = None) -> None:
        self.node_id = node_id
        self.socket = socket
        self.disk = disk or CrashingDisk()
        self.loop = asyncio.get_running_loop()
        self.clock = SystemClock()
        self.timers = Timers(self.loop)
        self.places = Seeds(loop=self.loop, clock=self.clock, is_ipv6=False)
        self.gossip: Gossip | None = None

    @classmethod
    async def open(cls, node_id: int, *, port: int = 0, disk: CrashingDisk | None = None) -> "Port":
        loop = asyncio.get_running_loop()
        socket = await ClusterSocket.open(loop, HOST, port, buffer_bytes=1 << 16)
        return cls(node_id, socket, disk)

    @property
    def name(self) -> str:
        return f"{HOST}:{self.socket.port}"

    @property
    def address(self) -> Address:
        return Address(HOST, self.socket.port)

    def forming(self, seeds: Sequence[str]) -> Forming:
        return Forming(
            disk=self.disk,
            node_id=self.node_id,
            seeds=seeds,
            own_seeds=(),
            places=self.places,
            socket=self.socket,
            loop=self.loop,
            clock=self.clock,
            timers=self.timers,
            random=random.Random(),
        )

    async def form(self, seeds: Sequence[str]) -> Identity:
        return await self.forming(seeds).formed()

    def start_gossip(
        self,
        seeds: Sequence[str] = (),
        *,
        cluster_id: str = "cluster",
        config: GossipConfig | None = None,
        load: Load = NO_LOAD,
    ) -> Gossip:
        self.gossip = Gossip(
            cluster_id=cluster_id,
            node_id=self.node_id,
            gossip=self.address,
            kafka=Address(HOST, 9000 + self.node_id),
            rack=None,
            seeds=seeds,
            places=self.places,
            socket=self.socket,
            disk=self.disk,
            config=config or GossipConfig(),
            loop=self.loop,
            clock=self.clock,
            timers=self.timers,
            random=random.Random(),
            load=lambda: load,
        )
        self.gossip.start()
        return self.gossip

    def die(self) -> None:
        if self.gossip is not None:
            self.gossip.drop()
        self.places.close()
        self.timers.close()
        self.socket.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario(), LIMIT_S))


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what others do; the test's own time limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)

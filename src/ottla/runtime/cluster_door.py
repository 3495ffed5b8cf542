"""A node's cluster port, and what is behind it: peers over TCP, founding and gossip over UDP, on one number.

`open` takes the port, `form` gives the node a cluster, with `start_gossip` it takes part; `resolve` says where another
node's cluster port is, as far as anybody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ottla.config import BrokerConfig
from ottla.config.seeds import join_seed, seed_names
from ottla.errors import ConfigError, PortTakenError
from ottla.membership import Address, Load
from ottla.membership.founding_wire import FOUNDERS_MAX
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.ports import Clock, Disk, Random
from ottla.runtime.cluster_socket import ClusterSocket
from ottla.runtime.forming import Forming
from ottla.runtime.gossip import Gossip
from ottla.runtime.identity import Identity
from ottla.runtime.peer_wire import Hello
from ottla.runtime.peers import Peers
from ottla.runtime.seeds import Seeds
from ottla.runtime.timers import Timers

CLUSTER_ENDPOINT = "CLUSTER"
"""The name of the endpoint in a broker's registration at which other nodes reach it."""
TRIES_MAX = 20
"""To find a number that is free for both protocols."""
PLAINTEXT = 0
UNKNOWN_DIRECTORY = bytes(16)


class ClusterDoor:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        random: Random,
    ) -> None:
        self.gossip: Gossip | None = None
        self.port = 0
        self._config = config
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._random = random
        self._seeds = seed_names(config.seeds)
        self._places = Seeds(loop=loop, clock=clock, is_ipv6=":" in config.address)
        self._socket = ClusterSocket()
        self._forming: Forming | None = None
        self._image: Callable[[], MetadataImage] | None = None
        hello = Hello(node_id=config.node_id, directory_id=UNKNOWN_DIRECTORY, cluster_id="")
        self.peers = Peers(loop=loop, hello=hello, resolve=self.resolve)
        if len(self._seeds) > FOUNDERS_MAX:
            raise ConfigError(f"seeds: {len(self._seeds)} are too many; it must be at most {FOUNDERS_MAX}")

    async def open(self, port: int) -> None:
        """Take the port for both protocols; 0: one that is free for both."""
        for _ in range(TRIES_MAX if port == 0 else 1):
            address = self._config.address
            self._socket = await ClusterSocket.open(
                self._loop, address, port, buffer_bytes=self._config.gossip.udp_buffer_size_bytes
            )
            try:
                self.port = await self.peers.bind(address, self._socket.port)
            except PortTakenError:
                self._socket.close()
                await self._socket.closed()
                if port != 0:
                    raise
            else:
                return
        raise PortTakenError(f"no port on {self._config.address} is free for both TCP and UDP")

    async def form(self, disk: Disk) -> Identity:
        """Raises ConfigError if the directory is of another cluster than the seeds."""
        own_hosts = (self._config.advertised_host, self._config.address)
        self._forming = Forming(
            disk=disk,
            node_id=self._config.node_id,
            seeds=self._seeds,
            own_seeds=[join_seed(host.lower(), self.port) for host in own_hosts],
            places=self._places,
            socket=self._socket,
            loop=self._loop,
            clock=self._clock,
            timers=self._timers,
            random=self._random,
        )
        identity = await self._forming.formed()
        self.peers.hello = Hello(
            node_id=identity.node_id, directory_id=identity.directory_id, cluster_id=identity.cluster_id
        )
        return identity

    async def start_gossip(
        self,
        identity: Identity,
        disk: Disk,
        *,
        kafka: Address,
        image: Callable[[], MetadataImage],
        load: Callable[[], Load],
    ) -> Gossip:
        """`kafka` is where clients reach this node; `load` says what it carries."""
        self._image = image
        self.gossip = Gossip(
            cluster_id=identity.cluster_id,
            node_id=identity.node_id,
            gossip=await self._own_address(),
            kafka=kafka,
            rack=self._config.rack,
            seeds=self._seeds,
            places=self._places,
            socket=self._socket,
            disk=disk,
            config=self._config.gossip,
            loop=self._loop,
            clock=self._clock,
            timers=self._timers,
            random=self._random,
            load=load,
        )
        self.gossip.start()
        return self.gossip

    async def _own_address(self) -> Address:
        """As the datagrams of this node show it: others recognise it by that."""
        name = join_seed(self._config.advertised_host, self.port)
        address = await self._places.resolve(name)
        if address is None:
            raise ConfigError(
                f"advertised_address: {self._config.advertised_host!r} can't be used, since nobody knows its address;"
                " it must be a host name or address at which others reach this node"
            )
        return address

    def image_changed(self) -> None:
        """Something was committed: the cluster has a leader, others may join; and its brokers are known."""
        if self._forming is not None:
            self._forming.established()
        if self.gossip is not None and self._image is not None:
            brokers = self._image().brokers.values()
            places = (
                cluster_address(broker.endpoints) for broker in brokers if broker.broker_id != self._config.node_id
            )
            self.gossip.set_registered(place for place in places if place is not None)

    def resolve(self, node_id: int) -> tuple[str, int] | None:
        """What gossip says; what the node has told the cluster; where it was when the cluster was founded."""
        found = None if self.gossip is None else self.gossip.address_of(node_id)
        if found is None and self._image is not None:
            broker = self._image().brokers.get(node_id)
            found = None if broker is None else cluster_address(broker.endpoints)
        if found is None and self._forming is not None:
            found = self._forming.address_of(node_id)
        return found

    def kafka_address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where clients reach a node, as gossip says: for a node that knows nothing of the metadata yet."""
        member = None if self.gossip is None else self.gossip.member(node_id)
        return None if member is None else member.kafka

    @property
    def endpoint(self) -> Endpoint:
        """What this node tells the cluster of itself."""
        return Endpoint(
            name=CLUSTER_ENDPOINT, host=self._config.advertised_host, port=self.port, security_protocol=PLAINTEXT
        )

    async def drop(self) -> None:
        """Close without a word, as a crash would; a clean stop lets `gossip` say goodbye first."""
        if self.gossip is not None:
            self.gossip.drop()
        self._places.close()
        self._socket.close()
        await self.peers.close()
        await self._socket.closed()


def cluster_address(endpoints: Iterable[Endpoint]) -> Address | None:
    """Of a broker, as it has registered."""
    for endpoint in endpoints:
        if endpoint.name == CLUSTER_ENDPOINT:
            return Address(endpoint.host, endpoint.port)
    return None

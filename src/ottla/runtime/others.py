"""What a node does because there are other nodes: it gossips, keeps the quorum complete, and hands snapshots over.

A node without a cluster port has none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.membership import Address
from ottla.runtime.hints import Hints
from ottla.runtime.load import LoadMeter
from ottla.runtime.load_figures import LoadFigures
from ottla.runtime.quorum_transfer import SnapshotTransfer
from ottla.runtime.quorum_voters import VoterKeeper

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from ottla.config import BrokerConfig
    from ottla.membership import MemberChanged
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock, Disk
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.cluster_door import ClusterDoor
    from ottla.runtime.gossip import Gossip
    from ottla.runtime.identity import Identity
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.server import Server
    from ottla.runtime.timers import Timers
    from ottla.runtime.vanished import Vanished


class Others:
    """Made once the metadata is loaded; `meet` before the quorum starts."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        door: ClusterDoor,
        disk: Disk,
        metadata: Metadata,
        client: BrokerClient,
        server: Server,
        vanished: Vanished,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
    ) -> None:
        self._config = config
        self._door = door
        self._disk = disk
        self._metadata = metadata
        self._client = client
        self._server = server
        self._vanished = vanished
        self._clock = clock
        self._timers = timers
        quorum = metadata.quorum
        self._transfer = SnapshotTransfer(
            disk=disk, peers=door.peers, quorum=quorum, timers=timers, loop=loop, executor=executor
        )
        self._voters = VoterKeeper(
            metadata=metadata,
            timers=timers,
            voters_max=config.cluster.voters_max,
            replace_after_ms=config.quorum.voter_replace_ms,
            directory_of=door.peers.directory_of,
        )

    async def meet(self, identity: Identity, kafka: Address) -> None:
        """Be found by others, under the address that clients use, and talk to them."""
        gossip = await self._gossip(identity, kafka)
        hints = Hints(self._metadata, gossip, self._timers)
        quorum = self._metadata.quorum

        def members_changed(_event: MemberChanged) -> None:
            quorum.set_contacts(gossip.live())
            quorum.doubt(gossip.dead())

        def process_ended(node_id: int) -> None:
            quorum.process_ended(node_id)
            gossip.process_ended(node_id)
            hints.tell()  # also where it was suspected before

        gossip.on_change(members_changed)
        self._door.peers.on_lost = self._vanished.lost
        self._door.peers.on_ended = process_ended
        quorum.transport = self._door.peers
        await self._door.peers.serve()

    async def _gossip(self, identity: Identity, kafka: Address) -> Gossip:
        image = self._image
        load = LoadMeter(node_id=self._config.node_id, traffic=self._server.traffic, image=image, clock=self._clock)
        gossip = await self._door.start_gossip(identity, self._disk, kafka=kafka, image=image, load=load)
        LoadFigures(
            metadata=self._metadata,
            gossip=gossip,
            client=self._client,
            config=self._config.cluster,
            clock=self._clock,
            timers=self._timers,
        )
        return gossip

    def _image(self) -> MetadataImage:
        return self._metadata.image

    def close(self) -> None:
        self._transfer.close()
        self._voters.close()

"""Several whole nodes in one process and on real sockets, each with a disk in memory that survives it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import uvloop

from ottla.config import BrokerConfig
from ottla.errors import ErrorCode
from ottla.metadata.image import PartitionImage
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.runtime.node import Node
from ottla.testing.disk import CrashingDisk
from tests.node_rig import NodeRig
from tests.ports import free_port

LIMIT_S = 60
HOST = "127.0.0.1"


class ClusterRig:
    """`nodes` are those that run. Nothing is shared between two of them but the process."""

    def __init__(self, count: int, **settings: Any) -> None:
        self.settings = settings
        self.nodes: dict[int, NodeRig] = {}
        self.disks = {node_id: CrashingDisk() for node_id in range(1, count + 1)}
        self.ports = {node_id: free_port() for node_id in self.disks}
        """Cluster ports, by node."""

    async def start(self) -> None:
        await asyncio.gather(*map(self.start_node, self.disks))

    async def start_node(self, node_id: int) -> NodeRig:
        config = BrokerConfig(
            node_id=node_id,
            port=0,
            cluster_port=self.ports[node_id],
            seeds=frozenset(f"{HOST}:{port}" for port in self.ports.values()),
            rack=f"rack-{node_id}",
            **self.settings,
        )
        node = Node(config, loop=asyncio.get_running_loop(), disk=self.disks[node_id])
        await node.start()
        rig = self.nodes[node_id] = NodeRig(node, self.disks[node_id])
        return rig

    async def kill(self, node_id: int) -> None:
        """It is gone without a word; its disk stays."""
        await self.nodes.pop(node_id).node.abandon()

    async def stop(self) -> None:
        nodes, self.nodes = self.nodes, {}
        for rig in nodes.values():
            with suppress(Exception):
                await rig.node.abandon()

    @property
    def any_node(self) -> NodeRig:
        return next(iter(self.nodes.values()))

    async def create(self, topic: str, partitions: int = 1, replication_factor: int = 3, **configs: str) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        made = await self.any_node.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        assert made.topics[0].error_code == 0, made
        await self.until(lambda: all(topic in rig.node.image.topics for rig in self.nodes.values()))

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        """As the node knows it that knows most."""
        known = [rig.node.image.partition(topic, index) for rig in self.nodes.values()]
        return max((image for image in known if image is not None), key=lambda image: image.partition_epoch)

    def leader(self, topic: str, index: int = 0) -> NodeRig:
        return self.nodes[self.partition(topic, index).leader]

    async def produce(self, topic: str, *values: bytes) -> Any:
        """The answer of whoever leads partition 0: as clients do, asked until somebody does."""
        async with asyncio.timeout(LIMIT_S / 3):
            while True:
                leader = self.nodes.get(self.partition(topic).leader)
                answer = None if leader is None else await leader.produce(topic, *values)
                if answer is not None and answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return answer
                await asyncio.sleep(0.01)  # until the metadata has come

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S / 3):
            while not condition():
                await asyncio.sleep(0.01)  # real sockets, real time: there is no event that says so


def with_cluster(scenario: Callable[[ClusterRig], Awaitable[None]], count: int = 3, **settings: Any) -> None:
    async def run() -> None:
        rig = ClusterRig(count, **settings)
        try:
            async with asyncio.timeout(LIMIT_S):
                await rig.start()
                await scenario(rig)
        finally:
            await rig.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())

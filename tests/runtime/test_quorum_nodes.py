"""Whole nodes with cluster ports: the quorum grows by itself, is described and changed, and outlives its leader."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from ottla.config import BrokerConfig, ClusterConfig, QuorumConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.runtime.node import Node
from ottla.testing.disk import CrashingDisk
from tests.node_rig import NodeRig

PATIENCE_S = 30


class Nodes:
    def __init__(self, **settings: object) -> None:
        self._settings = settings
        self.rigs: dict[int, NodeRig] = {}
        self.seed = ""

    async def start(self, node_id: int, disk: CrashingDisk | None = None) -> NodeRig:
        disk = disk or CrashingDisk()
        config = BrokerConfig(
            node_id=node_id,
            port=0,
            cluster_port=0,
            seeds=frozenset([self.seed] if self.seed else []),
            quorum=QuorumConfig(tick_ms=10, voter_replace_ms=1_000),
            **self._settings,  # type: ignore[arg-type]  # whatever a test wants
        )
        node = Node(config, loop=asyncio.get_running_loop(), disk=disk)
        async with asyncio.timeout(PATIENCE_S):
            await node.start()
        assert node.door is not None
        self.seed = self.seed or f"127.0.0.1:{node.door.port}"
        rig = self.rigs[node_id] = NodeRig(node, disk)
        return rig

    async def stop(self, node_id: int) -> CrashingDisk:
        rig = self.rigs.pop(node_id)
        await rig.node.stop()
        return rig.disk

    async def kill(self, node_id: int) -> CrashingDisk:
        rig = self.rigs.pop(node_id)
        await rig.node.abandon()
        return rig.disk.crash()

    def controller(self) -> NodeRig | None:
        return next((rig for rig in self.rigs.values() if rig.node.controller.is_active), None)

    def voters(self) -> set[tuple[int, ...]]:
        """As the nodes know them."""
        return {rig.node.controller.quorum.voters.ids for rig in self.rigs.values()}

    async def describe(self, at: NodeRig) -> ResponsePartitionData:
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        answer = await at.ask(DescribeQuorumRequest(topics=[topic]))
        data: ResponsePartitionData = answer.topics[0].partitions[0]
        return data


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.005)


def run(scenario: Callable[[Nodes], Awaitable[None]], **settings: object) -> None:
    async def life() -> None:
        nodes = Nodes(**settings)
        try:
            await scenario(nodes)
        finally:
            for node_id in list(nodes.rigs):
                with suppress(BrokerError):
                    await nodes.kill(node_id)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())


def test_one_node_becomes_three_voters_and_two_of_them_go_on_without_the_first() -> None:
    async def scenario(nodes: Nodes) -> None:
        first = await nodes.start(1)
        await first.create("before")
        await nodes.start(2)
        assert nodes.voters() == {(1,)}, "two voters would be weaker than one"
        await nodes.start(3)
        await until(lambda: nodes.voters() == {(1, 2, 3)})
        await nodes.start(4)
        described = await nodes.describe(nodes.rigs[4])
        assert described.leader_id == 1
        assert [voter.replica_id for voter in described.current_voters] == [1, 2, 3]
        assert [observer.replica_id for observer in described.observers] == [4]
        assert all(voter.replica_directory_id != bytes(16) for voter in described.current_voters)
        await nodes.kill(1)
        await until(lambda: nodes.controller() is not None)
        await until(lambda: all("before" in rig.node.image.topics for rig in nodes.rigs.values()))

    run(scenario)


def test_a_leader_that_stops_hands_over_and_comes_back_as_a_follower() -> None:
    async def scenario(nodes: Nodes) -> None:
        for node_id in (1, 2, 3):
            await nodes.start(node_id)
        await until(lambda: nodes.voters() == {(1, 2, 3)})
        term = nodes.rigs[1].node.controller.quorum.term
        nodes.seed = f"127.0.0.1:{nodes.rigs[2].node.door.port}"  # type: ignore[union-attr]  # it has a cluster port
        disk = await nodes.stop(1)
        await until(lambda: nodes.controller() is not None)
        assert {rig.node.controller.quorum.term for rig in nodes.rigs.values()} == {term + 1}
        await nodes.start(1, disk)
        assert nodes.rigs[1].node.controller_id in (2, 3)

    run(scenario)


def test_a_voter_that_is_gone_is_replaced_and_one_that_lost_its_disk_begins_anew() -> None:
    async def scenario(nodes: Nodes) -> None:
        for node_id in (1, 2, 3, 4):
            await nodes.start(node_id)
        await until(lambda: nodes.voters() == {(1, 2, 3)})
        await nodes.kill(3)
        await until(lambda: nodes.voters() == {(1, 2, 4)})
        await nodes.kill(4)
        await nodes.start(4)  # with an empty disk
        await until(lambda: nodes.voters() == {(1, 2, 4)} and _knows_directories(nodes))

    def _knows_directories(nodes: Nodes) -> bool:
        own = {rig.node.controller.quorum.directory_id for rig in nodes.rigs.values()}
        return {voter.directory_id for voter in nodes.rigs[1].node.controller.quorum.voters.voters} == own

    run(scenario, cluster=ClusterConfig(broker_session_timeout_ms=500, broker_heartbeat_interval_ms=50))


def test_voters_are_changed_by_hand() -> None:
    async def scenario(nodes: Nodes) -> None:
        first = await nodes.start(1)
        second = await nodes.start(2)
        identity = second.node.controller.quorum.directory_id
        added = await first.ask(
            AddRaftVoterRequest(cluster_id=None, timeout_ms=10_000, voter_id=2, voter_directory_id=identity)
        )
        assert added.error_code == ErrorCode.NONE
        assert first.node.controller.quorum.voters.ids == (1, 2)
        removed = await second.ask(RemoveRaftVoterRequest(cluster_id=None, voter_id=2, voter_directory_id=identity))
        assert removed.error_code == ErrorCode.NONE
        await until(lambda: nodes.voters() == {(1,)})

    run(scenario, cluster=ClusterConfig(voters_max=1))


def test_a_leader_can_be_removed_and_says_when_it_is() -> None:
    async def scenario(nodes: Nodes) -> None:
        for node_id in (1, 2, 3):
            await nodes.start(node_id)
        await until(lambda: nodes.voters() == {(1, 2, 3)})
        first = nodes.rigs[1]
        own = first.node.controller.quorum.directory_id
        removed = await first.ask(RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=own))
        assert removed.error_code == ErrorCode.NONE
        await until(lambda: nodes.controller() in (nodes.rigs[2], nodes.rigs[3]))
        await nodes.rigs[2].create("afterwards")
        await until(lambda: "afterwards" in first.node.image.topics)

    run(scenario)

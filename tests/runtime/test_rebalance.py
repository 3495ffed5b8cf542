"""Partitions move between real nodes while somebody writes: nothing is lost, doubled or out of order."""

import asyncio
from contextlib import suppress
from functools import partial

from ottla.config import ClusterConfig, JournalConfig
from ottla.config.cluster import Placement
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.placement import PLACEMENT, placement_of
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.records import iter_batches, read_records
from ottla.testing.disk import CrashingDisk
from tests.cluster_rig import ClusterRig, with_cluster
from tests.metadata.balancing import leader_counts, moving, replica_counts
from tests.node_rig import NodeRig
from tests.ports import free_port

QUICK = ClusterConfig(
    leader_rebalance_delay_ms=1_000,
    broker_gone_after_ms=1_500,
    rebalance_moves_max=3,
    broker_heartbeat_interval_ms=200,
    broker_session_timeout_ms=2_000,
)

SMALL = JournalConfig(file_size_bytes=1 << 20)
"""The disk in memory copies whole files when they are synced."""


class Writer:
    """Writes numbers to one partition, one after the other, and goes on until each is acknowledged."""

    def __init__(self, cluster: ClusterRig, topic: str, index: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self.index = index
        self._task = asyncio.ensure_future(self._run())
        self.acknowledged: list[bytes] = []

    async def _run(self) -> None:
        while self._cluster.nodes:
            await self._write(b"%d" % len(self.acknowledged))

    async def _write(self, value: bytes) -> None:
        while self._cluster.nodes and not await self._is_acknowledged(value):
            await asyncio.sleep(0.01)
        self.acknowledged.append(value)

    async def _is_acknowledged(self, value: bytes) -> bool:
        leader = self._cluster.nodes.get(self._cluster.partition(self._topic, self.index).leader)
        if leader is None:
            return False
        numbered = {"producer_id": 1_000 + self.index, "producer_epoch": 0, "base_sequence": int(value)}
        with suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(5):
                answer = await leader.produce(self._topic, value, partition=self.index, **numbered)
            return bool(answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        return False

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def log_values(rig: NodeRig, topic: str, index: int) -> list[bytes | None]:
    log = rig.node.partitions.log_of(topic, index)
    data = log.read(log.start_offset, 1 << 24, upto_offset=log.end_offset, min_one_batch=True)
    return [record.value for batch in iter_batches(data) for record in read_records(batch.data)]


async def writers(cluster: ClusterRig, topic: str, partitions: int, replication_factor: int) -> list[Writer]:
    await cluster.create(topic, partitions, replication_factor, min_insync_replicas="2")
    return [Writer(cluster, topic, index) for index in range(partitions)]


async def check(cluster: ClusterRig, topic: str, writing: list[Writer]) -> None:
    """Every replica has exactly what was written, in order; the last may not have been acknowledged."""
    for writer in writing:
        await writer.stop()
    for writer in writing:
        await cluster.until(partial(are_alike, cluster, topic, writer.index))
        found = log_values(cluster.leader(topic, writer.index), topic, writer.index)
        assert found == [b"%d" % number for number in range(len(found))]
        assert found[: len(writer.acknowledged)] == writer.acknowledged


def are_alike(cluster: ClusterRig, topic: str, index: int) -> bool:
    replicas = cluster.partition(topic, index).replicas
    first, *others = [log_values(cluster.nodes[node_id], topic, index) for node_id in replicas]
    return all(other == first for other in others)


async def add_node(cluster: ClusterRig, node_id: int) -> None:
    cluster.disks[node_id] = CrashingDisk()
    cluster.ports[node_id] = free_port()
    await cluster.start_node(node_id)


def image(cluster: ClusterRig) -> MetadataImage:
    """As the controller shows it, or somebody if there is none."""
    nodes = [rig.node for rig in cluster.nodes.values()]
    return next((node.image for node in nodes if node.is_controller), nodes[0].image)


def placements(cluster: ClusterRig) -> set[Placement]:
    shown = image(cluster)
    return {placement_of(shown, broker_id) for broker_id in shown.brokers}


async def drain(cluster: ClusterRig, node_id: int) -> None:
    config = AlterableConfig(name=PLACEMENT, config_operation=0, value=Placement.DRAINING.value)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(node_id), configs=[config])
    answer = await cluster.any_node.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


def test_a_node_joins_and_another_is_decommissioned_under_load() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        writing = await writers(cluster, "t", partitions=6, replication_factor=2)
        await add_node(cluster, 4)
        await cluster.until(lambda: len(image(cluster).brokers) == 4 and placements(cluster) == {Placement.OPEN})
        assert replica_counts(image(cluster)) == {1: 3, 2: 3, 3: 3, 4: 3}

        await drain(cluster, 2)
        await cluster.until(lambda: replica_counts(image(cluster))[2] == 0)
        await cluster.until(lambda: leader_counts(image(cluster))[2] == 0)
        assert all(3 <= replica_counts(image(cluster))[node_id] <= 5 for node_id in (1, 3, 4))
        await cluster.until(lambda: all(len(writer.acknowledged) > 20 for writer in writing))
        await check(cluster, "t", writing)

    with_cluster(scenario, cluster=QUICK, journal=SMALL)


def test_a_dead_node_is_replaced_although_the_controller_dies_on_the_way() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        writing = await writers(cluster, "t", partitions=8, replication_factor=3)
        controller = next(node_id for node_id, rig in cluster.nodes.items() if rig.node.is_controller)
        victim = next(node_id for node_id in cluster.nodes if node_id != controller)
        await cluster.until(lambda: len(image(cluster).brokers) == 5)
        await cluster.kill(victim)
        await cluster.until(lambda: bool(moving(image(cluster))))
        await cluster.kill(controller)
        await cluster.start_node(controller)
        await cluster.until(lambda: replica_counts(image(cluster))[victim] == 0 and not moving(image(cluster)))
        assert sum(replica_counts(image(cluster)).values()) == 24
        await check(cluster, "t", writing)

    with_cluster(scenario, count=5, cluster=QUICK, journal=SMALL)


def test_a_client_moves_a_partition_from_any_node() -> None:
    async def scenario(cluster: ClusterRig) -> None:
        writing = await writers(cluster, "t", partitions=1, replication_factor=2)
        await cluster.until(lambda: len(writing[0].acknowledged) > 5)
        old = cluster.partition("t").replicas
        target = (next(iter({1, 2, 3}.difference(old))), old[0])
        asked = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=target)])
        for rig in list(cluster.nodes.values()):
            answer = await rig.ask(AlterPartitionReassignmentsRequest(topics=[asked]))
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.partition("t").replicas == target)
        listed = await cluster.any_node.ask(ListPartitionReassignmentsRequest(topics=None))
        assert listed.topics == []
        await cluster.until(lambda: cluster.partition("t").leader == target[0])
        await check(cluster, "t", writing)

    with_cluster(scenario, cluster=QUICK, journal=SMALL)

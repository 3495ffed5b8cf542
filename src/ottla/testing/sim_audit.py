"""What the disks of a cluster hold when all is quiet: every replica of every partition, read beside its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.protocol.records import BatchHeader, iter_batches
from ottla.testing.history import Replica

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.testing.sim_node import SimulatedNode
    from ottla.types import TopicPartition

Placement = Mapping["TopicPartition", Sequence[int]]
"""The node ids of each partition's replicas."""


def replicas(nodes: Sequence[SimulatedNode], placement: Placement) -> dict[TopicPartition, dict[str, Replica]]:
    for node in nodes:
        if node.node is not None and node.is_serving:
            node.node.logs.write_held()
    disks = {node.config.node_id: (node.machine.name, node.machine.disk) for node in nodes}
    return {
        partition: {
            name: read_replica(disk, str(partition))
            for name, disk in (disks[node_id] for node_id in node_ids if node_id in disks)
        }
        for partition, node_ids in placement.items()
    }


def read_replica(disk: Disk, directory: str) -> Replica:
    batches: dict[int, bytes] = {}
    end_offset = 0
    for batch in _batches(disk, directory):
        batches[batch.base_offset] = bytes(batch.data)
        end_offset = batch.last_offset + 1
    return Replica(batches=batches, end_offset=end_offset)


def _batches(disk: Disk, directory: str) -> Iterator[BatchHeader]:
    for name in sorted(disk.list(directory)):
        if name.endswith(".log"):
            path = f"{directory}/{name}"
            yield from iter_batches(disk.open(path).pread(disk.size(path), 0))

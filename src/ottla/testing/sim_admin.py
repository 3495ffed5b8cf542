"""What a simulation does before and after the faults: create the topic, wait for all replicas, read everything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.testing.history import Poll
from ottla.testing.sim_offsets import committed_offsets, find_coordinator
from ottla.testing.sim_reader import SimReader
from ottla.testing.sim_wire import Address, UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.protocol.messages.metadata import MetadataResponse
    from ottla.testing.sim_client import SimClient

CREATE_VERSION = 7
CREATE_TIMEOUT_MS = 10_000


async def create_topic(client: SimClient, name: str, partitions: int, replicas: int) -> None:
    """Until it is there."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    while True:
        try:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS)
            answer = await client.cluster.ask_any(request, CREATE_VERSION)
        except UnavailableError:
            await pause(client.dice, 0.5)
            continue
        if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await pause(client.dice, 0.5)


async def wait_until_in_sync(
    client: SimClient, brokers: Sequence[Address], topics: Sequence[str]
) -> Mapping[TopicPartition, Sequence[int]]:
    """Until every broker says that every replica is in sync. Returns where the replicas are."""
    placements: list[Mapping[TopicPartition, Sequence[int]]] = []
    for broker in brokers:
        while True:
            try:
                placement = _placement(await client.cluster.refresh(topics, broker))
            except UnavailableError:
                placement = None
            if placement is not None:
                break
            await pause(client.dice, 0.5)
        placements.append(placement)
    return placements[-1]


def _placement(answer: MetadataResponse) -> Mapping[TopicPartition, Sequence[int]] | None:
    """None while something is missing."""
    placement: dict[TopicPartition, Sequence[int]] = {}
    for topic in answer.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return None
        for partition in topic.partitions:
            if partition.leader_id < 0 or set(partition.isr_nodes) != set(partition.replica_nodes):
                return None
            placement[TopicPartition(topic.name or "", partition.partition_index)] = partition.replica_nodes
    return placement


async def read_everything(client: SimClient, partitions: Sequence[TopicPartition], groups: Sequence[str]) -> None:
    """Put into the history what the logs hold in the end, and what each group has committed."""
    reader = SimReader(client, client.name, dict.fromkeys(partitions, 0))
    while any(reader.positions[partition] != reader.high_watermarks.get(partition) for partition in partitions):
        try:
            await reader.poll()
        except UnavailableError:
            reader.start_over()
            await pause(client.dice, 0.5)
    _remember(client, partitions)
    for group in groups:
        await _read_offsets(client, group, partitions)


def _remember(client: SimClient, partitions: Sequence[TopicPartition]) -> None:
    records: dict[TopicPartition, list[tuple[int, bytes]]] = defaultdict(list)
    for poll in client.history.of(Poll, lambda poll: poll.client.startswith(f"{client.name}.")):
        records[poll.partition].extend(poll.records)
    client.history.final = {partition: tuple(records[partition]) for partition in partitions}


async def _read_offsets(client: SimClient, group: str, partitions: Sequence[TopicPartition]) -> None:
    while True:
        try:
            coordinator = await find_coordinator(client.cluster, group)
            await committed_offsets(client, coordinator, group, partitions, is_final=True)
        except UnavailableError:
            await pause(client.dice, 0.5)
        else:
            return

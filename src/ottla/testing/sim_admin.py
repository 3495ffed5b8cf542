"""What a simulation does before and after the faults: create the topic, and read everything in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.testing.history import Poll
from ottla.testing.sim_offsets import committed_offsets, find_coordinator
from ottla.testing.sim_reader import SimReader
from ottla.testing.sim_wire import UnavailableError, pause

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient
    from ottla.types import TopicPartition

CREATE_VERSION = 7


async def create_topic(client: SimClient, name: str, partitions: int, replicas: int) -> None:
    """Until it is there."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    while True:
        try:
            answer = await client.cluster.ask_any(CreateTopicsRequest(topics=[topic]), CREATE_VERSION)
        except UnavailableError:
            await pause(client.dice, 0.5)
            continue
        if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await pause(client.dice, 0.5)


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
            await committed_offsets(client, coordinator, group, partitions)
        except UnavailableError:
            await pause(client.dice, 0.5)
        else:
            return

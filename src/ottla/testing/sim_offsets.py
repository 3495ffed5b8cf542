"""Where a group's coordinator is, and what the group has committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.testing.history import CommittedRead, Outcome
from ottla.testing.sim_view import ClusterView
from ottla.testing.sim_wire import Address, UnavailableError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient

FIND_VERSION = 4
OFFSET_FETCH_VERSION = 8


async def find_coordinator(cluster: ClusterView, group: str) -> Address:
    answer = await cluster.ask_any(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), FIND_VERSION)
    found = answer.coordinators[0]
    if found.error_code != ErrorCode.NONE:
        raise UnavailableError(ErrorCode(found.error_code).name)
    return found.host, found.port


async def committed_offsets(
    client: SimClient,
    coordinator: Address,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    is_final: bool = False,
) -> dict[TopicPartition, int]:
    """Where to go on reading: 0 where nothing is committed. The history remembers what was answered."""
    if not partitions:
        return {}
    began = client.now()
    topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition]) for tp in partitions]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    answer = (await client.cluster.ask(coordinator, request, OFFSET_FETCH_VERSION)).groups[0]
    if answer.error_code != ErrorCode.NONE:
        raise UnavailableError(ErrorCode(answer.error_code).name)
    found: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for data in topic.partitions:
            partition = TopicPartition(topic.name, data.partition_index)
            found[partition] = max(data.committed_offset, 0)
            read = CommittedRead(
                client=client.name,
                began=began,
                group=group,
                partition=partition,
                offset=data.committed_offset,
                coordinator=coordinator[0],
                is_final=is_final,
            )
            read.end(Outcome.OK, client.now())
            client.history.add(read)
    return found

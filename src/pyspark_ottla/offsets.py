"""Where partitions begin and end, and where they were at a time; offsets that a group has committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyspark_ottla.wire import GROUP, Broker, Cluster, check

__all__ = ["EARLIEST", "LATEST", "READ_COMMITTED", "READ_UNCOMMITTED", "Partition", "commit_offsets", "list_offsets"]

LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
CLIENT: Final = -1
LIST_OFFSETS_VERSION_MAX: Final = 9

Partition = tuple[str, int]


def list_offsets(cluster: Cluster, timestamps_ms: Mapping[Partition, int], isolation: int) -> dict[Partition, int]:
    """For each partition the first offset at or after a time; -1 if none. LATEST and EARLIEST are times too."""
    return cluster.persist(lambda: _list_offsets(cluster, timestamps_ms, isolation))


def _list_offsets(cluster: Cluster, timestamps_ms: Mapping[Partition, int], isolation: int) -> dict[Partition, int]:
    cluster.topics({topic for topic, _ in timestamps_ms})
    by_leader: dict[Broker, dict[str, list[ListOffsetsPartition]]] = {}
    for (topic, partition), timestamp_ms in timestamps_ms.items():
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
        by_leader.setdefault(cluster.leader(topic, partition), {}).setdefault(topic, []).append(asked)
    for broker, topics in by_leader.items():
        request = ListOffsetsRequest(
            replica_id=CLIENT,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        broker.send(request, broker.version_of(ListOffsetsRequest, LIST_OFFSETS_VERSION_MAX))
    found: dict[Partition, int] = {}
    refused: list[tuple[int, str]] = []
    for broker in by_leader:
        answer: Any = broker.receive()
        for topic in answer.topics:
            for partition in topic.partitions:
                found[topic.name, partition.partition_index] = partition.offset
                if partition.error_code:
                    refused.append((partition.error_code, f"offsets of {topic.name}-{partition.partition_index}"))
    for code, what in refused:
        check(code, what)
    return found


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Write down for a group without members how far it has read."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.setdefault(topic, []).append(committed)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    def attempt() -> None:
        answer: Any = cluster.coordinator(GROUP, group).ask(request)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile
                    check(partition.error_code, f"offsets of group {group}")

    cluster.persist(attempt)

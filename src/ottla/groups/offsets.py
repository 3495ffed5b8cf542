"""How far each group has read: what the log says of it, and what requests about it lead to.

Offsets that are committed inside a transaction come here by the same `put`, once their transaction's marker is in the
log; until then they are with `pending_offsets`, and readers who ask for stable offsets are told to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ottla.errors import ErrorCode
from ottla.groups.records import NEVER_EXPIRES_MS, GroupRecord, OffsetCommitted, OffsetDeleted
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.types import TopicPartition

OffsetsByTopic = Mapping[str, Mapping[int, OffsetCommitted]]

NO_OFFSET = -1
NO_OFFSETS: OffsetsByTopic = {}

Unknown = Collection[tuple[str, int]]
"""Partitions of which nothing can be said: mostly because they do not exist."""


class CommittedOffsets:
    """The committed offsets of all groups of a shard, by group, topic and partition."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetCommitted]]] = {}

    def of(self, group_id: str) -> OffsetsByTopic:
        return self._by_group.get(group_id, NO_OFFSETS)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._by_group

    def put(self, record: OffsetCommitted) -> None:
        topics = self._by_group.get(record.group_id)
        if topics is None:
            topics = self._by_group[record.group_id] = {}
        partitions = topics.get(record.topic)
        if partitions is None:
            partitions = topics[record.topic] = {}
        partitions[record.partition] = record

    def remove(self, record: OffsetDeleted) -> None:
        topics = self._by_group.get(record.group_id, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)
        if not topics:
            self._by_group.pop(record.group_id, None)

    def all(self) -> Iterator[OffsetCommitted]:
        return (
            record
            for topics in self._by_group.values()
            for partitions in topics.values()
            for record in partitions.values()
        )

    # What requests lead to

    def deletion(self, group_id: str) -> list[GroupRecord]:
        """The tombstones of all that a group has."""
        return [tombstone(record) for partitions in self.of(group_id).values() for record in partitions.values()]

    def deletion_of_topic(self, topic: str) -> list[GroupRecord]:
        """The tombstones of all that any group has of a topic."""
        return [tombstone(record) for topics in self._by_group.values() for record in topics.get(topic, {}).values()]

    def fetch(
        self, group_id: str, asked: Sequence[OffsetFetchRequestTopics] | None, unstable: Unknown = ()
    ) -> list[OffsetFetchResponseTopics]:
        """What is committed for the partitions asked for; for all that there are, if `asked` is None.

        `unstable`: partitions of which nothing must be told, for a transaction may be about to change that.
        """
        known = self.of(group_id)
        if asked is None:
            wanted = [(topic, sorted(known[topic])) for topic in sorted(known)]
        else:
            wanted = [(topic.name, list(topic.partition_indexes)) for topic in asked]
        return [
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    _unstable(at) if (topic, at) in unstable else _fetched(at, known.get(topic, {}).get(at))
                    for at in indexes
                ],
            )
            for topic, indexes in wanted
        ]

    def deletion_on_request(
        self, request: OffsetDeleteRequest, subscribed: Collection[str] | None, unknown: Unknown
    ) -> tuple[list[GroupRecord], OffsetDeleteResponse]:
        """`subscribed`: the topics whose offsets must stay, since members read them; None: any may be one of them."""
        known = self.of(request.group_id)
        records: list[GroupRecord] = []
        topics = []
        for topic in request.topics:
            is_read = subscribed is None or topic.name in subscribed
            partitions = []
            for asked in topic.partitions:
                error = _delete_error(TopicPartition(topic.name, asked.partition_index), unknown, is_read)
                record = known.get(topic.name, {}).get(asked.partition_index)
                if error is ErrorCode.NONE and record is not None:
                    records.append(tombstone(record))
                partitions.append(
                    OffsetDeleteResponsePartition(partition_index=asked.partition_index, error_code=error)
                )
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return records, OffsetDeleteResponse(topics=topics)


def commit(
    request: OffsetCommitRequest, *, refusal: ErrorCode, unknown: Unknown, metadata_max_bytes: int, now_ms: int
) -> tuple[list[GroupRecord], OffsetCommitResponse]:
    """The records of a commit. `refusal`: why the group takes none of it, if it does not."""
    retention_ms = request.retention_time_ms
    expire_ms = NEVER_EXPIRES_MS if retention_ms < 0 else now_ms + retention_ms
    records: list[GroupRecord] = []
    topics = []
    for topic in request.topics:
        name = topic.name
        partitions = []
        for at in topic.partitions:
            metadata = at.committed_metadata or ""
            if unknown and (name, at.partition_index) in unknown:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif refusal:
                error = refusal
            elif len(metadata) > metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                error = ErrorCode.NONE
                records.append(
                    OffsetCommitted(
                        request.group_id,
                        name,
                        at.partition_index,
                        at.committed_offset,
                        at.committed_leader_epoch,
                        metadata,
                        now_ms,
                        expire_ms,
                    )
                )
            partitions.append(OffsetCommitResponsePartition(partition_index=at.partition_index, error_code=error))
        topics.append(OffsetCommitResponseTopic(name=name, partitions=partitions))
    return records, OffsetCommitResponse(topics=topics)


def tombstone(record: OffsetCommitted) -> OffsetDeleted:
    return OffsetDeleted(record.group_id, record.topic, record.partition)


def _fetched(partition: int, record: OffsetCommitted | None) -> OffsetFetchResponsePartitions:
    if record is None:
        return OffsetFetchResponsePartitions(
            partition_index=partition, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=record.offset,
        committed_leader_epoch=record.leader_epoch,
        metadata=record.metadata,
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def _delete_error(partition: TopicPartition, unknown: Unknown, is_read: bool) -> ErrorCode:
    if partition in unknown:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE

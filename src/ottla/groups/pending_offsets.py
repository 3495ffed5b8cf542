"""Offsets that were committed inside of transactions that are still open.

They follow from the log as all else does. What counts is the order in which offsets were written, not that in which
transactions end: an offset that was written later, by whomever, overrules one that is still pending.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.groups.offsets import Unknown
from ottla.groups.records import GroupRecord, OffsetCommitted, OffsetPending
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


class Place(NamedTuple):
    """What an offset is of."""

    group_id: str
    topic: str
    partition: int


class PendingOffsets:
    __slots__ = ("_by_group", "_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Place, tuple[int, OffsetCommitted]]] = {}
        """With a number that tells which of two was written later."""
        self._by_group: dict[str, dict[Place, set[int]]] = {}
        """The producers that have something pending, by group."""
        self._written = 0

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._by_group

    def partitions_of(self, group_id: str) -> Collection[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._by_group.get(group_id, ())}

    def put(self, record: OffsetPending) -> None:
        self._written += 1
        offset = record.offset
        place = Place(offset.group_id, offset.topic, offset.partition)
        self._by_producer.setdefault(record.producer_id, {})[place] = self._written, offset
        self._by_group.setdefault(place.group_id, {}).setdefault(place, set()).add(record.producer_id)

    def take(self, producer_id: int, *, commits: bool) -> list[OffsetCommitted]:
        """What a producer had pending: its transaction has ended."""
        taken = self._by_producer.pop(producer_id, {})
        for place, (number, _) in taken.items():
            self._forget(place, producer_id)
            if commits:
                self._drop_older(place, number)
        return [offset for _, offset in taken.values()]

    def overrule(self, group_id: str, topic: str, partition: int) -> None:
        """An offset was written, or removed, after everything that is pending."""
        if group_id in self._by_group:
            self._drop_older(Place(group_id, topic, partition), self._written + 1)

    def _drop_older(self, place: Place, number: int) -> None:
        for producer_id in tuple(self._by_group.get(place.group_id, {}).get(place, ())):
            pending = self._by_producer[producer_id]
            if pending[place][0] < number:
                del pending[place]
                if not pending:
                    del self._by_producer[producer_id]
                self._forget(place, producer_id)

    def _forget(self, place: Place, producer_id: int) -> None:
        places = self._by_group[place.group_id]
        producers = places[place]
        producers.discard(producer_id)
        if not producers:
            del places[place]
        if not places:
            del self._by_group[place.group_id]


def commit(
    request: TxnOffsetCommitRequest, *, refusal: ErrorCode, unknown: Unknown, metadata_max_bytes: int, now_ms: int
) -> tuple[list[GroupRecord], TxnOffsetCommitResponse]:
    """The records of a commit. `refusal`: why the group takes none of it, if it does not."""
    records: list[GroupRecord] = []
    topics = []
    for topic in request.topics:
        partitions = []
        for at in topic.partitions:
            metadata = at.committed_metadata or ""
            error = refusal
            if (topic.name, at.partition_index) in unknown:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not refusal and len(metadata) > metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if not error:
                offset = OffsetCommitted(
                    request.group_id,
                    topic.name,
                    at.partition_index,
                    at.committed_offset,
                    at.committed_leader_epoch,
                    metadata,
                    now_ms,
                )
                records.append(OffsetPending(request.producer_id, request.producer_epoch, offset))
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=at.partition_index, error_code=error))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return records, TxnOffsetCommitResponse(topics=topics)

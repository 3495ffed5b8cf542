"""Markers into the partitions that this node leads: how a transaction ended.

A marker ends the transaction of its producer in one partition; in a partition of `__consumer_offsets` it also makes the
group's offsets count, so there the group's shard writes it. From version 2 of transactions on a marker has a higher
epoch than the records that it ends. So one that comes late, when its producer has begun anew, is told from a good one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.records import TransactionEnded
from ottla.metadata.internal_topics import CONSUMER_OFFSETS
from ottla.protocol.control import build_end_txn_marker
from ottla.services import Deferred
from ottla.storage.log import Origin
from ottla.transactions.transaction import BUMPS_EPOCH_FROM

if TYPE_CHECKING:
    from ottla.ports import Clock
    from ottla.replication.partition import Partition
    from ottla.runtime.committer import Committer
    from ottla.runtime.groups import Coordinator, GroupCoordinators
    from ottla.runtime.partitions import Partitions
    from ottla.transactions.markers import Marker
    from ottla.types import TopicPartition

COORDINATOR_IS_ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class MarkerWriter:
    def __init__(
        self, *, partitions: Partitions, groups: GroupCoordinators, committer: Committer, clock: Clock
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._committer = committer
        self._clock = clock

    def write(self, at: TopicPartition, marker: Marker) -> Deferred[ErrorCode]:
        """Done once the marker is committed; or with the reason why it can't be, as a transaction coordinator knows
        it.
        """
        answer: Deferred[ErrorCode] = Deferred()
        try:
            if at.topic == CONSUMER_OFFSETS:
                self._write_to_group(self._groups.at(at.partition), marker, answer)
            else:
                self._write_to(self._partitions.get(*at), marker, answer)
        except BrokerError as error:
            answer.complete(_as_leader(error.code))
        return answer

    def write_with_decision(self, at: TopicPartition, marker: Marker) -> bool:
        """Into the same commit as the decision to end the transaction, if nobody but this node has the partition.

        False: it was not written, and has to wait for that commit.
        """
        try:
            if at.topic == CONSUMER_OFFSETS:
                group = self._groups.at(at.partition)
                if not group.is_alone or not _ends_something(group.partition, marker):
                    return False
                group.call(lambda shard, _token, _now_ms: shard.end_transaction(_ended(marker)))
            else:
                partition = self._partitions.get(*at)
                if partition.followers or not _ends_something(partition, marker):
                    return False
                self._append(partition, marker)
        except BrokerError:
            return False
        return True

    def _write_to(self, partition: Partition, marker: Marker, answer: Deferred[ErrorCode]) -> None:
        if _ends_something(partition, marker):
            self._append(partition, marker)
        _complete_when_committed(partition, answer)

    def _append(self, partition: Partition, marker: Marker) -> None:
        now_ms = self._clock.now_ms()
        batch = build_end_txn_marker(
            committed=marker.commits,
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=now_ms,
        )
        self._committer.append(partition, batch, now_ms=now_ms, origin=Origin.COORDINATOR)

    def _write_to_group(self, group: Coordinator, marker: Marker, answer: Deferred[ErrorCode]) -> None:
        if not _ends_something(group.partition, marker):
            _complete_when_committed(group.partition, answer)
            return

        def done(ended: Deferred[ErrorCode]) -> None:
            answer.complete(ErrorCode.NONE if ended.error is None else _as_leader(ended.error.code))

        group.call(lambda shard, _token, _now_ms: shard.end_transaction(_ended(marker))).on_done(done)


def _ends_something(partition: Partition, marker: Marker) -> bool:
    """False if the partition has the marker already. Raises INVALID_PRODUCER_EPOCH for one that comes too late."""
    known = partition.log.producers.producers.get(marker.producer.producer_id)
    if known is None or marker.version < BUMPS_EPOCH_FROM or known.epoch < marker.producer.epoch:
        return True
    if known.epoch > marker.producer.epoch or known.txn_first_offset >= 0:
        raise BrokerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"a marker of epoch {marker.producer.epoch}, where producer {known.producer_id} has written with"
            f" {known.epoch}",
        )
    return False


def _ended(marker: Marker) -> TransactionEnded:
    return TransactionEnded(
        marker.producer.producer_id, marker.producer.epoch, marker.commits, marker.coordinator_epoch
    )


def _complete_when_committed(partition: Partition, answer: Deferred[ErrorCode]) -> None:
    partition.when_committed(
        partition.log.end_offset,
        lambda error: answer.complete(ErrorCode.NONE if error is None else _as_leader(error.code)),
    )


def _as_leader(code: ErrorCode) -> ErrorCode:
    """Where the group's coordinator is, there is the partition's leader: a transaction coordinator knows only that."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in COORDINATOR_IS_ELSEWHERE else code

"""Who is in sync, kept up by the leader through the controller.

A follower that has caught up is proposed to be added, one that has been behind for too long to be removed. Proposals of
many partitions share one AlterPartition, one request at a time. What a proposal came to is known from its answer, or
from the next image of the partition; until then it counts as it must (see `replication.partition`), and is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from ottla.config.replication import ReplicationConfig
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock
    from ottla.protocol.schema import Request
    from ottla.replication.followers import Follower
    from ottla.replication.partition import Partition
    from ottla.runtime.timers import Timers
    from ottla.services import Deferred

log = logging.getLogger(__name__)

PARTITIONS_MAX = 2_000
"""In one request."""
RETRY_MS_MIN = 50
RETRY_MS_MAX = 1_000
REFUSED_MS = 1_000
"""After the controller has refused a replica, before it is proposed again."""
ANSWER_MS = 10_000

UNDECIDED = frozenset((ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NEW_LEADER_ELECTED))
"""The controller knows more of the partition than this node: the metadata will tell."""


class IsrChanges:
    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
        send: Callable[..., Deferred[Any]],
        led: Callable[[], Iterable[Partition]],
        config: ReplicationConfig,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`send` is that of a ControllerChannel; `led` are the partitions with followers that are led here."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._send: Callable[..., Deferred[Any]] = send
        self._led = led
        self._config = config
        self._clock = clock
        self._timers = timers
        self._loop = loop
        self._queue: dict[Partition, None] = {}
        self._in_flight: dict[tuple[bytes, int], tuple[Partition, tuple[int, ...]]] = {}
        self._refused_until: dict[Partition, int] = {}
        self._failures = 0
        """In a row."""
        self._looked_ms = clock.monotonic_ms()
        self._is_scheduled = False
        self._is_closed = False

    def start(self) -> None:
        self._look_again()

    def close(self) -> None:
        self._is_closed = True

    def caught_up(self, partition: Partition, follower: Follower) -> None:
        """A follower has all that is committed: propose it, unless the controller would refuse it."""
        broker = self._image().brokers.get(follower.replica_id)
        if broker is None or not broker.is_active or broker.broker_epoch != follower.broker_epoch:
            return
        if self._refused_until and self._refused_until.get(partition, 0) > self._clock.monotonic_ms():
            return
        if partition.proposed_isr is None:
            self._propose(partition, (*partition.isr, follower.replica_id))

    def brokers_changed(self, broker_ids: Iterable[int]) -> None:
        """A follower that could not be proposed before may be now, and says nothing more while nothing is written."""
        for partition in self._led():
            partition.look_who_joins()
            for broker_id in broker_ids:
                self._propose_if_caught_up(partition, partition.followers.get(broker_id))

    def _propose_if_caught_up(self, partition: Partition, follower: Follower | None) -> None:
        if follower is not None and partition.may_join(follower):
            self.caught_up(partition, follower)

    def look(self) -> None:
        """Propose to remove the followers that lag, and again those that the controller has refused.

        A node that stood still has heard of nobody, and that is nobody's fault but its own: it looks again later.
        """
        now_ms, lag_max_ms = self._clock.monotonic_ms(), self._config.replica_lag_time_max_ms
        stood_still = now_ms - self._looked_ms > lag_max_ms
        self._looked_ms = now_ms
        if stood_still:
            return
        self._refused_until = {p: until for p, until in self._refused_until.items() if until > now_ms}
        for partition in self._led():
            lagging = partition.lagging(now_ms, lag_max_ms)
            if lagging and partition.proposed_isr is None:
                log.info("%s: no longer in sync: %s", partition, lagging)
                self._propose(partition, tuple(node for node in partition.isr if node not in lagging))
            self._look_who_joins(partition)

    def _look_who_joins(self, partition: Partition) -> None:
        """A follower that could not be proposed when it had caught up may say nothing more for long."""
        if not partition.has_ended and partition.in_sync_replicas < len(partition.replicas):
            for follower in partition.followers.values():
                self._propose_if_caught_up(partition, follower)

    def _look_again(self) -> None:
        if not self._is_closed:
            self.look()
            self._timers.after_ms(self._config.replica_lag_time_max_ms / 2, self._look_again)

    def _propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        partition.propose_isr(isr)
        self._queue[partition] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._in_flight and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        topics: dict[bytes, list[RequestPartitionData]] = {}
        for partition in list(self._queue)[:PARTITIONS_MAX]:
            del self._queue[partition]
            isr = partition.proposed_isr
            if isr is None or partition.has_ended:
                continue  # the metadata was quicker
            self._in_flight[partition.topic_id, partition.index] = partition, isr
            topics.setdefault(partition.topic_id, []).append(self._proposal(partition, isr))
        if not topics:
            if self._queue:
                self._schedule()
            return
        request: Request = AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=[RequestTopicData(topic_id=topic_id, partitions=asked) for topic_id, asked in topics.items()],
        )
        self._send(request, timeout_ms=ANSWER_MS).on_done(self._answered)

    def _proposal(self, partition: Partition, isr: tuple[int, ...]) -> RequestPartitionData:
        epochs = {self._node_id: self._broker_epoch()}
        for replica_id in isr:
            follower = partition.followers.get(replica_id)
            if follower is not None:
                epochs[replica_id] = follower.broker_epoch
        return RequestPartitionData(
            partition_index=partition.index,
            leader_epoch=partition.leader_epoch,
            new_isr=isr,
            new_isr_with_epochs=[BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1)) for node in isr],
            partition_epoch=partition.partition_epoch,
        )

    def _answered(self, answer: Deferred[Any]) -> None:
        asked, self._in_flight = self._in_flight, {}
        response: AlterPartitionResponse | None = answer.value
        if response is None or response.error_code:
            code = response.error_code if response is not None else answer.error and answer.error.code
            if not self._failures:
                log.warning("the controller did not answer about in-sync replicas (%s); it is asked again", code)
            self._failures += 1
            self._again(asked.values())
            return
        self._failures = 0
        for topic in response.topics:
            for told in topic.partitions:
                pair = asked.pop((topic.topic_id, told.partition_index), None)
                if pair is not None:
                    self._decided(*pair, told)
        self._again(asked.values())
        if self._queue:
            self._schedule()

    def _decided(self, partition: Partition, isr: tuple[int, ...], told: Any) -> None:
        code = told.error_code
        if not code:
            partition.commit_isr(tuple(told.isr), told.partition_epoch)
            self._look_who_joins(partition)
        elif code not in UNDECIDED and partition.proposed_isr is isr:
            log.info(
                "%s-%d: the controller refuses %s: %s", partition.topic, partition.index, isr, ErrorCode(code).name
            )
            partition.propose_isr(None)
            self._refused_until[partition] = self._clock.monotonic_ms() + REFUSED_MS
            self._timers.after_ms(REFUSED_MS, lambda: self._look_who_joins(partition))

    def _again(self, pairs: Iterable[tuple[Partition, tuple[int, ...]]]) -> None:
        for partition, isr in pairs:
            if partition.proposed_isr is isr and not partition.has_ended:
                self._queue[partition] = None
        if self._queue and not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._timers.after_ms(min(RETRY_MS_MAX, RETRY_MS_MIN << min(self._failures, 10)), self._flush)

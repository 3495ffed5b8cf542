"""The transaction coordinators of this node: one shard per partition of `__transaction_state` that it leads.

What a shard decides is carried out in order: the decision is committed before a marker is written, and every marker is
committed before the transaction is called complete; a partition is part of a transaction before a record is written to
it. Over several nodes each of these waits for the one before. Where this node alone has all the logs that are involved,
they go into one commit instead, which is all or nothing (`Committer.keep_whole`): then a transaction costs two syncs,
or three with clients that name their partitions first (docs/decisions/0016-transactions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.routing import partition_for_group
from ottla.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.replicated import Result, Token
from ottla.runtime.controller_channel import client_address
from ottla.runtime.coordinators import Coordinators
from ottla.runtime.shard_format import plain_format
from ottla.runtime.shards import ShardRuntime
from ottla.services import Deferred
from ottla.transactions.log_format import decode_record, encode_record
from ottla.transactions.markers import Marker
from ottla.transactions.shard import NEEDS_PRODUCER_ID, Markers, TransactionShard
from ottla.transactions.transaction import BUMPS_EPOCH_FROM, Producer, TransactionRecord
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock
    from ottla.runtime.broker_client import BrokerClient
    from ottla.runtime.committer import Committer
    from ottla.runtime.marker_sending import MarkerSender
    from ottla.runtime.marker_writing import MarkerWriter
    from ottla.runtime.new_topics import NewTopics
    from ottla.runtime.partitions import Partitions
    from ottla.runtime.producer_ids import ProducerIds
    from ottla.runtime.timers import Timers

T = TypeVar("T")
Coordinator = ShardRuntime[TransactionShard, TransactionRecord]
Codes = Mapping[TopicPartition, ErrorCode]

JOIN_TIMEOUT_MS = 10_000
"""How long the coordinator of a transaction may take to answer a leader that has records of it: longer than it waits
itself (`shards.ANSWER_MS_MAX`), for who does not answer is hung up on."""
VERIFY_VERSION = 5


class TransactionCoordinators:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        new_topics: NewTopics,
        partitions: Partitions,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        producer_ids: ProducerIds,
        client: BrokerClient,
        writer: MarkerWriter,
        sender: MarkerSender,
    ) -> None:
        self._node_id = config.node_id
        self._image = image
        self._new_topics = new_topics
        self._committer = committer
        self._producer_ids = producer_ids
        self._client = client
        self._writer = writer
        self._sender = sender
        self._shards: Coordinators[TransactionShard] = Coordinators(
            topic=TRANSACTION_STATE,
            new_shard=lambda: TransactionShard(config.transactions),
            log_format=plain_format(encode_record, decode_record),
            image=image,
            partitions=partitions,
            committer=committer,
            clock=clock,
            timers=timers,
            on_replayed=self._carry_out,
        )

    def start(self) -> None:
        self._shards.start()

    # What handlers call.

    def call(
        self, transactional_id: str, decide: Callable[[TransactionShard, Token, int], Result[Any, T]]
    ) -> Deferred[T]:
        return self._shards.at(self.partition_of(transactional_id)).call(decide)

    def call_with_id(
        self, transactional_id: str, decide: Callable[[TransactionShard, Token, int, int | None], Result[Any, Any]]
    ) -> Deferred[Any]:
        """The same for decisions that may need a new producer id."""
        answer: Deferred[Any] = Deferred()

        def ask(fresh_id: int | None) -> None:
            try:
                asked = self.call(transactional_id, lambda shard, token, now_ms: decide(shard, token, now_ms, fresh_id))
            except BrokerError as error:
                answer.fail(error)
            else:
                asked.on_done(asked_once)

        def asked_once(done: Deferred[Any]) -> None:
            if done.error is not None:
                answer.fail(done.error)
            elif done.value is NEEDS_PRODUCER_ID:
                self._producer_ids.next_id().on_done(has_id)
            else:
                answer.complete(done.value)

        def has_id(done: Deferred[int]) -> None:
            if done.error is not None:
                answer.fail(BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(done.error)))
            else:
                ask(done.value)

        ask(None)
        return answer

    def partition_of(self, transactional_id: str) -> int:
        """Which partition of `__transaction_state` an id belongs to. Raises COORDINATOR_NOT_AVAILABLE."""
        count = self._shards.partition_count
        if not count:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for_group(transactional_id, count)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Where the offsets of a group are kept. Raises COORDINATOR_NOT_AVAILABLE."""
        topic = self._image().topics.get(CONSUMER_OFFSETS)
        if topic is None:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return TopicPartition(CONSUMER_OFFSETS, partition_for_group(group_id, len(topic.partitions)))

    def shards(self) -> Iterable[TransactionShard]:
        return [coordinator.shard for coordinator in self._shards.all()]

    def ensure_topic(self) -> Deferred[None]:
        return self._shards.ensure_topic(self._new_topics)

    def write_marker(self, at: TopicPartition, marker: Marker) -> Deferred[ErrorCode]:
        return self._writer.write(at, marker)

    # Records of a transaction that are about to be written here

    def join(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], *, adds: bool
    ) -> Deferred[Codes]:
        """Ask the coordinator whether the producer may write to these partitions; `adds`: they become part of its
        transaction by that. Without an error the records must be appended at once, in the turn of the answer.
        """
        try:
            index = self.partition_of(transactional_id)
            registration = self._image().partition(TRANSACTION_STATE, index)
            if registration is not None and registration.leader == self._node_id:
                return self._join_here(transactional_id, producer, partitions, adds)
            address = None if registration is None else client_address(self._image(), registration.leader)
            if address is None:
                raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except BrokerError as error:
            refused: Deferred[Codes] = Deferred()
            refused.complete(dict.fromkeys(partitions, error.code))
            return refused
        request = _join_request(transactional_id, producer, partitions, adds)
        asked = self._client.send(
            address, request, version=VERIFY_VERSION, timeout_ms=JOIN_TIMEOUT_MS, channel="transactions"
        )
        return _joined(asked, partitions)

    def _join_here(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], adds: bool
    ) -> Deferred[Codes]:
        coordinator = self._shards.at(self.partition_of(transactional_id))
        answer: Deferred[Codes] = Deferred()

        def done(asked: Deferred[Any]) -> None:
            code: Any = asked.value if asked.error is None else asked.error.code
            answer.complete(code if isinstance(code, Mapping) else dict.fromkeys(partitions, code))

        def decide(shard: TransactionShard, token: Token, now_ms: int) -> Result[Any, Any]:
            if adds:
                return shard.add_partitions(transactional_id, producer, partitions, BUMPS_EPOCH_FROM, token, now_ms)
            return shard.verify_partitions(transactional_id, producer, partitions)

        asked = coordinator.call(decide, at_once=self._committer.can_keep_whole)
        if coordinator.partition.high_watermark < coordinator.partition.log.end_offset:
            self._committer.keep_whole()
        asked.on_done(done)
        return answer

    # What shards have decided

    def _carry_out(self, coordinator: Coordinator) -> Callable[[], None] | None:
        """Markers of the transactions that were just decided: now, if they can share a commit, or after it."""
        decided = coordinator.shard.take_markers()
        if not decided:
            return None
        later: list[tuple[Markers, set[TopicPartition]]] = []
        for markers in decided:
            left = set(markers.partitions)
            if coordinator.is_alone and self._committer.can_keep_whole:
                marker = _marker(markers, coordinator)
                left = {at for at in sorted(left) if not self._writer.write_with_decision(at, marker)}
                self._committer.keep_whole()
            if left:
                later.append((markers, left))
            else:
                _complete(coordinator, markers)
        return (lambda: self._send(coordinator, later)) if later else None

    def _send(self, coordinator: Coordinator, decided: Iterable[tuple[Markers, set[TopicPartition]]]) -> None:
        for markers, left in decided:
            self._sender.send(
                markers.transactional_id,
                _marker(markers, coordinator),
                left,
                is_wanted=lambda: coordinator.is_open,
                on_done=_completing(coordinator, markers),
            )

    async def close(self) -> None:
        await self._shards.close()


def _marker(markers: Markers, coordinator: Coordinator) -> Marker:
    return Marker(markers.producer, markers.commits, coordinator.partition.leader_epoch, markers.version)


def _completing(coordinator: Coordinator, markers: Markers) -> Callable[[], None]:
    return lambda: _complete(coordinator, markers)


def _complete(coordinator: Coordinator, markers: Markers) -> None:
    coordinator.call(lambda shard, _token, now_ms: shard.markers_written(markers, now_ms))


def _join_request(
    transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], adds: bool
) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=not adds,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=at) for topic, at in by_topic.items()],
            )
        ]
    )


def _joined(asked: Deferred[AddPartitionsToTxnResponse], partitions: frozenset[TopicPartition]) -> Deferred[Codes]:
    answer: Deferred[Codes] = Deferred()

    def done(asked: Deferred[AddPartitionsToTxnResponse]) -> None:
        response = asked.value
        if response is None or response.error_code:
            code = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
            answer.complete(dict.fromkeys(partitions, code))
            return
        codes = {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
            for result in response.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        answer.complete({at: codes.get(at, ErrorCode.UNKNOWN_SERVER_ERROR) for at in partitions})

    asked.on_done(done)
    return answer

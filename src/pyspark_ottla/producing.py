"""Sending record batches: numbered, so that one that is sent again is not written again.

One round is under way while the next is encoded: at most one batch per partition, in one request per leader. A batch
that fails for a passing reason goes out again with the same number; the broker knows it if it has it already.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.compression import Compression
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import TRANSACTIONAL_BIT, frame_batch
from pyspark_ottla.encoding import EncodedBatch
from pyspark_ottla.offsets import Partition
from pyspark_ottla.wire import PASSING, Broker, Cluster, WireError, check

__all__ = ["Identity", "Sender", "plain_identity"]

ALL_REPLICAS: Final = -1
NAMES_UNTIL: Final = 12
"""The last version of Produce in which topics go by their names."""
TIMEOUT_MS: Final = 30_000
RETRY_PAUSE_S: Final = 0.05


class Identity(NamedTuple):
    """A producer to the brokers. A later one of the same transactional id compares greater."""

    producer_id: int
    epoch: int


def plain_identity(cluster: Cluster) -> Identity:
    """A producer without transactions."""

    def attempt() -> Identity:
        answer: InitProducerIdResponse = cluster.any_broker().ask(InitProducerIdRequest(transactional_id=None))
        check(answer.error_code, "a producer id")
        return Identity(answer.producer_id, answer.producer_epoch)

    return cluster.persist(attempt)


class _Framed(NamedTuple):
    at: Partition
    data: bytes


class Sender:
    """Writes in order to each partition, as one producer."""

    def __init__(
        self,
        cluster: Cluster,
        identity: Identity,
        *,
        transactional_id: str | None,
        compression: Compression,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._transactional_id = transactional_id
        self._compression = compression
        self._sequences: dict[Partition, int] = {}
        self._under_way: dict[Broker, list[_Framed]] = {}

    @property
    def partitions(self) -> set[Partition]:
        """Those that were written to."""
        return set(self._sequences)

    def send(self, batches: Iterable[EncodedBatch]) -> None:
        for batch_round in _rounds(batches):
            framed = [self._framed(batch) for batch in batch_round]
            self.flush()
            self._cluster.persist(partial(self._start, framed))  # leaders may be gone before anything is sent

    def flush(self) -> None:
        """Wait until all is written."""
        deadline = time.monotonic() + self._cluster.timeout_s
        while self._under_way:
            again, reason = self._gather()
            if not again:
                return
            if reason is None or time.monotonic() > deadline:
                raise reason or WireError(ErrorCode.REQUEST_TIMED_OUT, "writing")
            self._cluster.forget()
            time.sleep(RETRY_PAUSE_S)
            self._cluster.persist(partial(self._start, again))

    def _framed(self, batch: EncodedBatch) -> _Framed:
        sequence = self._sequences.get(batch.at, 0)
        self._sequences[batch.at] = (sequence + batch.count) & 0x7FFFFFFF
        now_ms = time.time_ns() // 1_000_000
        data = frame_batch(
            batch.records,
            count=batch.count,
            last_delta=batch.count - 1,
            base_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms,
            compression=self._compression,
            attributes=TRANSACTIONAL_BIT * (self._transactional_id is not None),
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
        )
        return _Framed(batch.at, data)

    def _start(self, framed: list[_Framed]) -> None:
        self._under_way = {}
        by_leader: dict[Broker, list[_Framed]] = {}
        for batch in framed:
            by_leader.setdefault(self._cluster.leader(*batch.at), []).append(batch)
        for broker, batches in by_leader.items():
            self._under_way[broker] = batches
        for broker, batches in by_leader.items():
            try:
                broker.send(self._request(batches), broker.version_of(ProduceRequest, NAMES_UNTIL))
            except WireError as error:
                if error.code not in PASSING:
                    raise

    def _request(self, batches: list[_Framed]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), data in batches:
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=data))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ALL_REPLICAS,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def _gather(self) -> tuple[list[_Framed], WireError | None]:
        """Take the answers to all that is under way: what has to go out again, and why."""
        again: list[_Framed] = []
        reason: WireError | None = None
        under_way, self._under_way = self._under_way, {}
        for broker, batches in under_way.items():
            try:
                refused = dict(_refusals(broker.receive()))
            except WireError as error:
                if error.code not in PASSING:
                    raise
                again, reason = again + batches, error
                continue
            for at, code in refused.items():
                reason = WireError(ErrorCode(code), f"writing to {at[0]}-{at[1]}")
                if reason.code not in PASSING:
                    raise reason
            again += [batch for batch in batches if batch.at in refused]
        return again, reason


def _refusals(answer: Any) -> Iterator[tuple[Partition, int]]:
    for topic in answer.responses:
        for partition in topic.partition_responses:
            if partition.error_code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                yield (topic.name, partition.index), partition.error_code


def _rounds(batches: Iterable[EncodedBatch]) -> Iterator[list[EncodedBatch]]:
    """In order, with no partition twice in one of them."""
    rounds: list[list[EncodedBatch]] = []
    counts: dict[Partition, int] = {}
    for batch in batches:
        number = counts[batch.at] = counts.get(batch.at, -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(batch)
    yield from rounds

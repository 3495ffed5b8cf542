"""A transactional producer whose transactions never time out, and can be taken over when the program starts again.

It sends one batch at a time and waits for its acknowledgement, since all that matters is that everything is on the
brokers' disks before the database decides. A request whose answer was lost is sent again: batches carry sequence
numbers, and the end of a transaction is known by its epoch, so that neither takes effect twice.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from confluent_kafka import murmur2

from ottla.client.errors import ClientError, ProducerFencedError, RefusedError, TimedOutError, TransactionAbortedError
from ottla.client.librdkafka import logger
from ottla.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch
from ottla.protocol.schema import Request
from ottla.two_phase.brokers import Address, Brokers
from ottla.types import TopicPartition

Answer = TypeVar("Answer", InitProducerIdResponse, EndTxnResponse)

PRODUCE_VERSION = 12
"""By name; the partition is added to the transaction with its first batch."""
ALL_REPLICAS = -1
ACKNOWLEDGE_WITHIN_MS = 30_000
BATCH_BYTES = 256 * 1024
RETRY_S = 0.05

FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
COORDINATOR_PASSES = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
PARTITION_PASSES = COORDINATOR_PASSES | frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
WRITTEN = frozenset((ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))


class Identity(NamedTuple):
    """What a transaction's records carry; no two transactions of an id have the same."""

    producer_id: int
    epoch: int


NOBODY = Identity(-1, -1)


class Writer:
    def __init__(self, brokers: Brokers, transactional_id: str, patience_s: float) -> None:
        self._brokers = brokers
        self._transactional_id = transactional_id
        self._patience_s = patience_s
        self.identity = NOBODY
        self.has_written = False
        """Whether the transaction has begun: with its first batch, or the attempt to send it."""
        self._sequences: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, list[Record]] = {}
        self._waiting_bytes = 0
        self._turn = 0

    # Who it is

    def take_over(self) -> Identity | None:
        """Become the one writer of the id. Returns the transaction that an earlier one has left open."""
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, enable2_pc=True, keep_prepared_txn=True
        )
        answer = self._ask_coordinator(request, InitProducerIdResponse, "starting")
        self._begin(Identity(answer.producer_id, answer.producer_epoch))
        left = Identity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return None if left.producer_id == NOBODY.producer_id else left

    def end(self, *, commit: bool) -> None:
        """Commit or abort what is open. Sent again after a lost answer, it is done once."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commit,
        )
        answer = self._ask_coordinator(request, EndTxnResponse, "ending a transaction")
        self._begin(Identity(answer.producer_id, answer.producer_epoch))

    def _begin(self, identity: Identity) -> None:
        self.identity = identity
        self.has_written = False
        self._sequences.clear()
        self.forget()

    def forget(self) -> None:
        """What was not sent yet."""
        self._waiting.clear()
        self._waiting_bytes = 0

    # Records

    def add(self, topic: str, record: Record, partition: int | None) -> None:
        count = self._brokers.partitions_of(topic)
        if partition is None:
            partition = self._turn % count if record.key is None else murmur2(record.key, count)
            self._turn += record.key is None
        if not 0 <= partition < count:
            raise RefusedError(f"{topic} has {count} partitions, and no {partition}")
        self._waiting.setdefault(TopicPartition(topic, partition), []).append(record)
        self._waiting_bytes += len(record.key or b"") + len(record.value or b"")
        if self._waiting_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Returns when all is on the disks of the in-sync replicas."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for at, records in waiting.items():
            self._write(at, records)

    def _write(self, at: TopicPartition, records: list[Record]) -> None:
        sequence = self._sequences.get(at, 0)
        batch = build_batch(
            records,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        self.has_written = True
        self._again(f"writing to {at}", lambda: self._try_write(at, batch))
        self._sequences[at] = sequence + len(records)

    def _try_write(self, at: TopicPartition, batch: bytes) -> bool:
        leader = self._brokers.leader_of(at)
        if leader is None:
            return False
        data = [PartitionProduceData(index=at.partition, records=batch)]
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ALL_REPLICAS,
            timeout_ms=ACKNOWLEDGE_WITHIN_MS,
            topic_data=[TopicProduceData(name=at.topic, partition_data=data)],
        )
        try:
            answer = self._brokers.ask(leader, request, ProduceResponse, PRODUCE_VERSION)
        except OSError as failure:
            logger.debug("%s: %s", at, failure)
            self._brokers.learn(at.topic)
            return False
        code = answer.responses[0].partition_responses[0].error_code
        if code in PARTITION_PASSES:
            self._brokers.learn(at.topic)
            return False
        if code not in WRITTEN:
            raise self._error(code, f"writing to {at}", TransactionAbortedError)
        return True

    # Asking

    def _ask_coordinator(self, request: Request, answer: type[Answer], doing: str) -> Answer:
        found: list[Answer] = []

        def attempt() -> bool:
            address = self._brokers.coordinator_of(self._transactional_id)
            if address is None:
                return False
            given = self._ask_once(address, request, answer)
            if given is None or given.error_code in COORDINATOR_PASSES:
                return False
            if given.error_code:
                raise self._error(given.error_code, doing, RefusedError)
            found.append(given)
            return True

        self._again(doing, attempt)
        return found[0]

    def _ask_once(self, address: Address, request: Request, answer: type[Answer]) -> Answer | None:
        try:
            return self._brokers.ask(address, request, answer)
        except OSError as failure:
            logger.debug("%s:%d: %s", *address, failure)
            return None

    def _again(self, doing: str, attempt: Callable[[], bool]) -> None:
        """Until it says that it is done."""
        deadline = time.monotonic() + self._patience_s
        while not self._attempted(attempt):
            if time.monotonic() > deadline:
                raise TimedOutError(f"{self._transactional_id}: {doing} did not end within {self._patience_s} s")
            time.sleep(RETRY_S)

    def _attempted(self, attempt: Callable[[], bool]) -> bool:
        try:
            return attempt()
        except ClientError as failure:
            if not failure.retriable:
                raise
            logger.debug("%s", failure)
            return False

    def _error(self, code: int, doing: str, kind: type[ClientError]) -> ClientError:
        known = ErrorCode(code)
        if known in FENCED:
            text = "another producer with the same transactional id has taken over, this one is fenced"
            return ProducerFencedError(f"{self._transactional_id}: {doing}: {text}", code=known)
        hint = ""
        if known is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            hint = ": is transaction.two.phase.commit.enable set on the brokers?"
        return kind(f"{self._transactional_id}: {doing}: {known.name}{hint}", code=known)

"""Transactional producers as Kafka's clients of version 2 are, and readers of committed records.

A producer writes the same value to several partitions in one transaction, and commits it or aborts it. Several may have
the same transactional id: then each is a zombie as soon as another starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.errors import CorruptBatchError, ErrorCode
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import READ_COMMITTED, FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch, check_crc, iter_batches, read_records
from ottla.testing.history import Anomaly, Operation, Outcome
from ottla.testing.sim_wire import Address, UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.protocol.schema import Request
    from ottla.testing.sim_client import SimClient

FIND_VERSION, INIT_VERSION, PRODUCE_VERSION, END_VERSION, FETCH_VERSION = 4, 5, 12, 5, 12
TRANSACTION_KEY = 1
TIMEOUT_MS = 4_000
ATTEMPTS_MAX = 30
COMMITS = 0.7
AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
NEVER_RIGHT = frozenset(
    {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUEST}
)


@dataclass(slots=True, kw_only=True)
class Attempt(Operation):
    """OK: committed. FAILED: certainly not. UNKNOWN: perhaps, as a whole."""

    asked_to_commit: bool = False
    """Nobody ever asked for it: then it can't be committed."""


@dataclass(slots=True, kw_only=True)
class Transaction(Attempt):
    """The same value in several partitions."""

    value: bytes
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True, kw_only=True)
class CommittedPoll(Operation):
    """What a reader of committed records got of one partition."""

    partition: TopicPartition
    records: tuple[tuple[int, bytes], ...]
    is_final: bool = False


class LostIdentityError(Exception):
    """The producer is not who it was, or can't go on with its transaction: it has to start again."""


class TransactionalProducer:
    def __init__(self, client: SimClient, transactional_id: str, partitions: Sequence[TopicPartition]) -> None:
        self._client = client
        self._cluster = client.cluster
        self._dice = client.dice
        self._id = transactional_id
        self._partitions = list(partitions)
        self._coordinator: Address | None = None
        self._producer: tuple[int, int] | None = None
        """Its id and epoch; None if it has to start again."""
        self._sequences: dict[TopicPartition, int] = {}
        self._count = 0

    async def run(self) -> None:
        """Until the client stops; the last transaction is ended, or left to its time-out."""
        while not self._client.is_stopping:
            try:
                if self._producer is None:
                    await self._start()
                await self._transaction()
            except (UnavailableError, LostIdentityError):
                self._producer = None
                self._cluster.forget_leaders()
                await pause(self._dice, 0.5)
            await pause(self._dice, self._client.pace_s)

    async def _start(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self._coordinate(request, INIT_VERSION)
        if answer.error_code:
            raise LostIdentityError
        self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, epoch: int) -> None:
        self._producer = producer_id, epoch
        self._sequences = {}

    async def _transaction(self) -> None:
        self._count += 1
        places = self._dice.sample(self._partitions, self._dice.randint(1, len(self._partitions)))
        value = f"{self._client.name}/{self._count}".encode()
        began = self._client.now()
        txn = Transaction(client=self._client.name, began=began, value=value, partitions=tuple(places))
        self._client.history.add(txn)
        for place in places:
            await self._send(place, value)
            if self._dice.random() < 0.1:
                await pause(self._dice, 2 * TIMEOUT_MS / 1000)
        txn.asked_to_commit = self._dice.random() < COMMITS
        await self._end(txn)

    async def _send(self, place: TopicPartition, value: bytes) -> None:
        assert self._producer is not None
        sequence = self._sequences.get(place, 0)
        batch = build_batch(
            [Record(value=value, timestamp_ms=self._client.now_ms())],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=place.partition, records=batch)
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=2_000,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )
        for _ in range(ATTEMPTS_MAX):
            code = await self._try_to_send(place, request)
            if not code:
                self._sequences[place] = sequence + 1
                return
            if code not in AGAIN:
                self._require_explicable(code, "Produce")
                raise LostIdentityError
            self._cluster.forget_leaders()
            await pause(self._dice, 0.2)
        raise LostIdentityError

    async def _try_to_send(self, place: TopicPartition, request: ProduceRequest) -> int:
        try:
            leader = await self._cluster.leader(place)
            answer = await self._cluster.ask(leader.address, request, PRODUCE_VERSION)
        except UnavailableError:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    async def _end(self, txn: Attempt) -> None:
        assert self._producer is not None
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=txn.asked_to_commit,
        )
        is_first = True  # whether no earlier attempt can have had an effect
        for _ in range(ATTEMPTS_MAX):
            try:
                answer = await self._ask_coordinator(request, END_VERSION)
            except UnavailableError:
                is_first = False
                self._coordinator = None
                await pause(self._dice, 0.2)
                continue
            if answer.error_code == ErrorCode.NONE:
                txn.end(Outcome.OK if txn.asked_to_commit else Outcome.FAILED, self._client.now())
                self._become(answer.producer_id, answer.producer_epoch)
                return
            if answer.error_code not in AGAIN:
                self._require_explicable(answer.error_code, "EndTxn")
                if is_first:
                    txn.end(Outcome.FAILED, self._client.now())
                raise LostIdentityError
            is_first = is_first and answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self._coordinator = None
            await pause(self._dice, 0.2)
        raise LostIdentityError

    # The coordinator

    async def _coordinate(self, request: Request, version: int) -> Any:
        for _ in range(ATTEMPTS_MAX):
            answer = await self._ask_coordinator(request, version)
            if answer.error_code not in AGAIN:
                self._require_explicable(answer.error_code, type(request).__name__)
                return answer
            self._coordinator = None
            await pause(self._dice, 0.2)
        raise UnavailableError("no coordinator")

    async def _ask_coordinator(self, request: Request, version: int) -> Any:
        if self._coordinator is None:
            find = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[self._id])
            found = (await self._cluster.ask_any(find, FIND_VERSION)).coordinators[0]
            if found.error_code:
                raise UnavailableError(ErrorCode(found.error_code).name)
            self._coordinator = found.host, found.port
        return await self._cluster.ask(self._coordinator, request, version)

    def _require_explicable(self, code: int, what: str) -> None:
        if code in NEVER_RIGHT:
            said = f"{what} was answered with {ErrorCode(code).name}"
            self._client.history.add(Anomaly(client=self._client.name, began=self._client.now(), what=said))


class CommittedReader:
    """Reads some partitions as consumers do that want committed records only."""

    def __init__(
        self, client: SimClient, partitions: Sequence[TopicPartition], *, from_offset: int = 0, is_final: bool = False
    ) -> None:
        self._client = client
        self._positions = dict.fromkeys(partitions, from_offset)
        self._ends: dict[TopicPartition, tuple[int, int]] = {}
        self._is_final = is_final
        self._max_bytes = client.dice.choice((300, 1_000_000))

    async def run(self) -> None:
        while not self._client.is_stopping:
            await self._poll_all()
            await pause(self._client.dice, self._client.pace_s)

    async def run_to_the_end(self) -> None:
        """Until everything is read, and nothing is open."""
        while not self._is_through():
            await self._poll_all()
            await pause(self._client.dice, 0.2)

    def _is_through(self) -> bool:
        return all(self._ends.get(partition) == (position, position) for partition, position in self._positions.items())

    async def _poll_all(self) -> None:
        for partition in self._positions:
            try:
                await self.poll(partition)
            except UnavailableError:
                self._client.cluster.forget_leaders()
                await pause(self._client.dice, 0.2)

    def position(self, partition: TopicPartition) -> int:
        """Where it reads on."""
        return self._positions[partition]

    async def poll(self, partition: TopicPartition) -> Sequence[tuple[int, bytes]]:
        """The next records, with their offsets."""
        leader = await self._client.cluster.leader(partition)
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self._positions[partition],
            partition_max_bytes=self._max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        )
        began = self._client.now()
        answer = await self._client.cluster.ask(leader.address, request, FETCH_VERSION)
        data = answer.responses[0].partitions[0]
        if data.error_code in AGAIN:
            raise UnavailableError(ErrorCode(data.error_code).name)
        if data.error_code:
            self._surprise(f"a fetch from {partition} was answered with {ErrorCode(data.error_code).name}")
            return ()
        return self._take(partition, data, began)

    def _take(self, partition: TopicPartition, data: PartitionData, began: float) -> Sequence[tuple[int, bytes]]:
        aborted = sorted((entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ())
        skipped = set[int]()
        records: list[tuple[int, bytes]] = []
        assert isinstance(data.records, bytes | memoryview)
        for batch in iter_batches(data.records):
            try:
                check_crc(batch)
            except CorruptBatchError as error:
                self._surprise(f"{partition}: {error}")
                return ()
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            found = list(read_records(batch.data))
            if batch.is_control:
                if control_type(found[0]) is ControlType.ABORT:
                    skipped.discard(batch.producer_id)
            elif batch.producer_id not in skipped:
                records += [
                    (record.offset, record.value or b"")
                    for record in found
                    if record.offset >= self._positions[partition]
                ]
            self._positions[partition] = max(self._positions[partition], batch.last_offset + 1)
        self._ends[partition] = data.last_stable_offset, data.high_watermark
        poll = CommittedPoll(
            client=self._client.name,
            began=began,
            partition=partition,
            records=tuple(records),
            is_final=self._is_final,
        )
        poll.end(Outcome.OK, self._client.now())
        self._client.history.add(poll)
        return records

    def _surprise(self, what: str) -> None:
        self._client.history.add(Anomaly(client=self._client.name, began=self._client.now(), what=what))

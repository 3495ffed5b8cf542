"""An idempotent producer as Kafka's clients are: several batches under way, numbered, and sent again in order.

Each partition has a producer id to itself. What is under way is sent in one go and the answers are awaited; whatever
was not acknowledged is sent again, with the numbers it had, before anything new. One that is told of another leader
goes there, mostly at once; and it does not leave a new leader that has not heard of that yet.

librdkafka takes OUT_OF_ORDER_SEQUENCE_NUMBER for reason enough to begin a new epoch, also behind a batch that was
refused, and then sends everything again that has no answer, what is stored included. So that is never right here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch
from ottla.testing.history import Anomaly, History, Outcome, Send
from ottla.testing.sim_view import ClusterView
from ottla.testing.sim_wire import UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient

PRODUCE_VERSION = 12
INIT_PRODUCER_ID_VERSION = 4
UNDER_WAY_MAX = 5
AT_ONCE_S_MAX = 0.002
AT_ONCE = 0.8
"""How likely one that is told of another leader does not wait."""
NEVER_RIGHT = frozenset(
    {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUEST}
)
"""Codes that no request of this client deserves."""
NUMBERS_ARE_WRONG = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID}
)


@dataclass(slots=True)
class Batch:
    send: Send
    sequence: int
    data: bytes


class PartitionProducer:
    def __init__(self, client: SimClient, partition: TopicPartition) -> None:
        self._client = client
        self._cluster: ClusterView = client.cluster
        self._history: History = client.history
        self._dice = client.dice
        self._partition = partition
        self._under_way: list[Batch] = []
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0
        self._count = 0
        self._is_redirected = False

    async def run(self) -> None:
        """Until the client stops and everything is acknowledged."""
        while self._under_way or not self._client.is_stopping:
            try:
                if self._producer_id < 0:
                    await self._introduce()
                self._gather()
                await self._send_all()
            except UnavailableError:
                self._cluster.forget_leaders()
                await pause(self._dice, 0.2)
            await pause(self._dice, AT_ONCE_S_MAX if self._is_redirected else self._client.pace_s)

    async def _introduce(self) -> None:
        answer = await self._cluster.ask_any(InitProducerIdRequest(transactional_id=None), INIT_PRODUCER_ID_VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise UnavailableError(ErrorCode(answer.error_code).name)
        self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def _gather(self) -> None:
        """New batches behind those that wait."""
        if self._client.is_stopping:
            return
        for _ in range(self._dice.randint(0, UNDER_WAY_MAX - len(self._under_way))):
            self._under_way.append(self._new_batch())

    def _new_batch(self) -> Batch:
        values = tuple(self._new_value() for _ in range(self._dice.randint(1, 3)))
        sequence, self._sequence = self._sequence, self._sequence + len(values)
        now_ms = self._client.now_ms()
        data = build_batch(
            [Record(value=value, timestamp_ms=now_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        send = Send(client=self._client.name, began=self._client.now(), partition=self._partition, values=values)
        return Batch(self._history.add(send), sequence, data)

    def _new_value(self) -> bytes:
        self._count += 1
        padding = "." * self._dice.choice((0, 0, 10, 300))
        return f"{self._client.name}/{self._partition.partition}/{self._count}{padding}".encode()

    async def _send_all(self) -> None:
        self._is_redirected = False
        if not self._under_way:
            return
        leader = await self._cluster.leader(self._partition)
        wire = await self._cluster.wire(leader.address)
        sent = [(batch, wire.send(self._request(batch), PRODUCE_VERSION)) for batch in self._under_way]
        in_order = True
        for batch, answer in sent:
            result = await self._cluster.patiently(wire, answer)
            self._look_at(batch, result)
            in_order = in_order and self._take(batch, result, leader.epoch)

    def _request(self, batch: Batch) -> ProduceRequest:
        data = PartitionProduceData(index=self._partition.partition, records=batch.data)
        topic = TopicProduceData(name=self._partition.topic, partition_data=[data])
        return ProduceRequest(acks=ACKS_ALL, timeout_ms=3_000, topic_data=[topic])

    def _look_at(self, batch: Batch, answer: ProduceResponse) -> None:
        code = answer.responses[0].partition_responses[0].error_code
        if code in NEVER_RIGHT or code in NUMBERS_ARE_WRONG:
            self._surprise(f"{ErrorCode(code).name} for {self._partition}, sequence number {batch.sequence}")

    def _take(self, batch: Batch, answer: ProduceResponse, epoch: int) -> bool:
        """Whether the batch is done; after one that is not, those behind it can't be."""
        result = answer.responses[0].partition_responses[0]
        code = result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if code == ErrorCode.NONE:
                batch.send.base_offset = result.base_offset
            batch.send.end(Outcome.OK, self._client.now())
            self._under_way.remove(batch)
            return True
        if code in NUMBERS_ARE_WRONG:
            self._start_over()
        elif code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._is_redirected = self._dice.random() < AT_ONCE
            if not 0 <= result.current_leader.leader_epoch < epoch:
                self._cluster.forget_leaders()
                self._cluster.told(self._partition, result.current_leader, answer.node_endpoints)
        elif code != ErrorCode.KAFKA_STORAGE_ERROR:
            self._cluster.forget_leaders()
        return False

    def _surprise(self, what: str) -> None:
        self._history.add(Anomaly(client=self._client.name, began=self._client.now(), what=what))

    def _start_over(self) -> None:
        """Give up what is under way, whose fate stays unknown, and begin as another producer."""
        self._under_way.clear()
        self._producer_id = -1

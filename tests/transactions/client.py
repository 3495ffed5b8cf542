"""A transactional producer that asks the handlers of a node, and readers who go by what a node tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import Record, build_batch, iter_batches, read_records
from ottla.protocol.schema import Request
from ottla.transactions.transaction import Producer
from tests.node_rig import NodeRig

BY_NAME = 12
READ_COMMITTED = 1
V1_PRODUCE, V1_END, V1_ADD, V1_OFFSETS = 9, 3, 3, 3
"""Versions of requests as clients send them that know nothing of transactions version 2."""


class Client:
    """A transactional producer, with just what a test needs."""

    def __init__(self, rig: NodeRig, version: int = 2, transactional_id: str = "x") -> None:
        self.rig = rig
        self.version = version
        self.transactional_id = transactional_id
        self.producer = Producer(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    async def ask(self, request: Request, version: int | None) -> Any:
        """As any client does: again while the coordinator loads."""
        while True:
            answer = await self.rig.ask(request, version)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            await asyncio.sleep(0)

    async def init(self, **fields: Any) -> InitProducerIdResponse:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        assert (await self.rig.ask(find)).coordinators[0].error_code == 0
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, **{"transaction_timeout_ms": 10_000, **fields}
        )
        answer = await self.ask(request, None)
        assert isinstance(answer, InitProducerIdResponse)
        self.producer = Producer(answer.producer_id, answer.producer_epoch)
        self.sequences = {}
        return answer

    async def add(self, *partitions: tuple[str, int]) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[at]) for topic, at in partitions],
        )
        answer = await self.rig.ask(request, V1_ADD)
        return [
            result.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]

    async def send(self, topic: str, *values: bytes, partition: int = 0, api_version: int | None = None) -> int:
        """The error code."""
        (code,) = await self.send_to(topic, [partition], *values, api_version=api_version)
        return code

    async def send_to(
        self, topic: str, partitions: Sequence[int], *values: bytes, api_version: int | None = None
    ) -> list[int]:
        """The same values to several partitions with one request, as a client sends them that batches."""
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=self.batch(topic, index, values))
                        for index in partitions
                    ],
                )
            ],
        )
        api_version = api_version or (BY_NAME if self.version == 2 else V1_PRODUCE)
        answers = (await self.rig.ask(request, api_version)).responses[0].partition_responses
        for answer in answers:
            if not answer.error_code:
                at = (topic, answer.index)
                self.sequences[at] = self.sequences.get(at, 0) + len(values)
        return [answer.error_code for answer in answers]

    def batch(self, topic: str, partition: int, values: Sequence[bytes]) -> bytes:
        now_ms = self.rig.node.clock.now_ms()
        return build_batch(
            [Record(key=None, value=value, headers=(), timestamp_ms=now_ms) for value in values],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
            transactional=True,
        )

    async def end(self, commits: bool) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=commits,
        )
        answer = await self.ask(request, None if self.version == 2 else V1_END)
        assert isinstance(answer, EndTxnResponse)
        if self.version == 2 and not answer.error_code:
            self.producer = Producer(answer.producer_id, answer.producer_epoch)
            self.sequences = {}
        return answer

    async def write(self, topic: str, *values: bytes, partition: int = 0) -> None:
        if self.version < 2:
            assert await self.add((topic, partition)) == [0]
        assert await self.send(topic, *values, partition=partition) == 0

    async def commit_offset(self, group_id: str, topic: str, offset: int, **fields: Any) -> int:
        if self.version < 2:
            add = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                group_id=group_id,
            )
            assert (await self.rig.ask(add)).error_code == 0
        at = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[at])],
            **fields,
        )
        answer = await self.rig.ask(request, None if self.version == 2 else V1_OFFSETS)
        code: int = answer.topics[0].partitions[0].error_code
        return code


async def fetch_committed(rig: NodeRig, topic: str, partition: int = 0) -> PartitionData:
    answer = await rig.fetch(topic, partition=partition, isolation_level=READ_COMMITTED)
    data: PartitionData = answer.responses[0].partitions[0]
    assert data.error_code == 0, data
    return data


async def committed(rig: NodeRig, topic: str, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records makes of a partition: it leaves out what it is told was aborted."""
    data = await fetch_committed(rig, topic, partition)
    assert isinstance(data.records, bytes)
    told = sorted((entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ())
    aborted = set[int]()
    values: list[bytes | None] = []
    for batch in iter_batches(data.records):
        while told and told[0][0] <= batch.last_offset:
            aborted.add(told.pop(0)[1])
        records = list(read_records(batch.data))
        if batch.is_control:
            if control_type(records[0]) is ControlType.ABORT:
                aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            values += [record.value for record in records]
    return values


async def group_offset(rig: NodeRig, group_id: str, topic: str, require_stable: bool = False) -> tuple[int, int]:
    """The offset and the error code."""
    wanted = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    group = (await rig.ask(OffsetFetchRequest(groups=[wanted], require_stable=require_stable), 8)).groups[0]
    if group.error_code:
        return -1, group.error_code
    found = group.topics[0].partitions[0]
    return found.committed_offset, found.error_code

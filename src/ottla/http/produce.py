"""Writing: messages of one request become one batch per partition, each a Produce request to its leader.

Nothing is answered with 200 before every batch of the request is as safe as was asked for. A batch that was refused is
sent again where that is sure to write nothing twice; one whose connection broke is not, and the caller is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.http.cluster import MOVED, RETRY_MS, Cluster, Deadline
from ottla.http.errors import HttpError, bad_request, of_broker
from ottla.http.messages import Encoding, Message, build, strongest_acks, to_bytes
from ottla.http.partitioner import partition_of
from ottla.http.ways import GRACE_MS, answer_of
from ottla.ports import Clock
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION = 9
"""Names topics and not their ids, and is served by every Kafka since 2.8."""
ACKS_NONE = 0
LEADER = 1
AGAIN = MOVED - {ErrorCode.KAFKA_STORAGE_ERROR}
CHANNEL = "http-produce"

Part = tuple[list[Message], list[bytes | None]]
"""The messages for one partition, and their keys."""


class Producing:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._turns = count()
        self.messages = 0
        """Written so far."""

    async def produce(
        self, topic: str, messages: list[Message], encoding: Encoding, *, single: bool
    ) -> tuple[int, dict[str, Any]]:
        """The status and what is said."""
        acks = strongest_acks(messages)
        parts = await self._by_partition(topic, messages, encoding)
        if len(parts) == 1:
            [(partition, part)] = parts.items()
            offset = await self._write(topic, partition, part, encoding, acks)
            self.messages += len(messages)
            if single:
                return (200 if acks else 202), {"topic": topic, "partition": partition, "offset": offset}
            written = [_written(partition, offset, part)]
        else:
            written = await self._write_all(topic, parts, encoding, acks)
        return (200 if acks else 202), {"topic": topic, "count": len(messages), "partitions": written}

    async def _write_all(
        self, topic: str, parts: dict[int, Part], encoding: Encoding, acks: int
    ) -> list[dict[str, Any]]:
        outcomes = await asyncio.gather(
            *(self._write(topic, partition, part, encoding, acks) for partition, part in parts.items()),
            return_exceptions=True,
        )
        written, failure = [], None
        for (partition, part), outcome in zip(parts.items(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failure = outcome
            else:
                self.messages += len(part[0])
                written.append(_written(partition, outcome, part))
        if failure is None:
            return written
        if not isinstance(failure, BrokerError):
            raise failure
        raise of_broker(failure, written=written)

    async def _by_partition(self, topic: str, messages: list[Message], encoding: Encoding) -> dict[int, Part]:
        ways = self._cluster.ways
        partitions = ways.partition_count(topic)
        if partitions is None:
            await ways.refresh(topic)
            partitions = ways.partition_count(topic)
            if partitions is None:
                raise unknown_topic(topic)
        try:
            keys = [to_bytes(message.key, encoding) for message in messages]
        except UnicodeEncodeError as error:
            raise bad_request(f"A key is not text: {error}.") from None
        if partitions == 1 and all(message.partition is None for message in messages):
            return {0: (messages, keys)}
        return self._split(messages, keys, partitions)

    def _split(self, messages: list[Message], keys: list[bytes | None], partitions: int) -> dict[int, Part]:
        keyless = next(self._turns) % partitions
        parts: dict[int, Part] = {}
        for message, key in zip(messages, keys, strict=True):
            index = message.partition
            if index is None:
                index = keyless if key is None else partition_of(key, partitions)
            part = parts.get(index)
            if part is None:
                part = parts[index] = ([], [])
            part[0].append(message)
            part[1].append(key)
        return parts

    async def _write(self, topic: str, partition: int, part: Part, encoding: Encoding, acks: int) -> int | None:
        """The offset of the first message; None where nobody waited for it."""
        try:
            batch = build(*part, encoding, self._clock.now_ms())
        except UnicodeEncodeError as error:
            raise bad_request(f"A message is not text: {error}.") from None
        cluster = self._cluster
        deadline = Deadline(cluster.timeout_ms)
        while True:
            try:
                leader = cluster.ways.leader(topic, partition)
                if leader is None or leader < 0:
                    leader = await cluster.leader_of(topic, partition, deadline)
                return await self._send(leader, topic, partition, batch, acks, deadline.left_ms)
            except BrokerError as error:
                if error.code not in AGAIN or deadline.left_ms <= RETRY_MS:
                    raise _told(error) from None
            await cluster.pause(topic)

    async def _send(
        self, leader: int, topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int
    ) -> int | None:
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            acks=acks or LEADER,
            timeout_ms=timeout_ms,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        patience_ms = timeout_ms + GRACE_MS
        answer = self._cluster.ways.send(
            leader, request, version=PRODUCE_VERSION, timeout_ms=patience_ms, channel=CHANNEL
        )
        if acks == ACKS_NONE:
            return None
        return await answer_of(answer, patience_ms, _base_offset)


def unknown_topic(topic: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")


def _base_offset(answer: ProduceResponse) -> int:
    told = answer.responses[0].partition_responses[0]
    if told.error_code:
        raise BrokerError(ErrorCode(told.error_code), told.error_message or "")
    return told.base_offset


def _told(error: BrokerError) -> BrokerError | HttpError:
    if error.code is ErrorCode.NETWORK_EXCEPTION:
        return BrokerError(error.code, "The leader was lost on the way: it is not known whether this was written.")
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        return BrokerError(error.code, "It was not acknowledged in time: it is not known whether it will last.")
    return error


def _written(partition: int, offset: int | None, part: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "count": len(part[0])}

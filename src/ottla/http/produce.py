"""Writing: messages of one request become one batch per partition, each a Produce request to its leader.

Nothing is answered with 200 before every batch of the request is as safe as was asked for. A batch that was refused is
sent again where that is sure to write nothing twice; one whose connection broke is not, and the caller is told.

Where one broker leads all partitions concerned and is known, as nearly always, `attempt` sends all batches in one
request without a task, and `outcome` says what came of it. `produce` is for everything else, and `resume` for what an
attempt has left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any, TypeGuard

from ottla.errors import BrokerError, ErrorCode
from ottla.http.cluster import MOVED, RETRY_MS, Cluster, Deadline
from ottla.http.errors import bad_request, of_broker
from ottla.http.messages import Encoding, Message, build, strongest_acks, to_bytes
from ottla.http.partitioner import partition_of
from ottla.http.ways import GRACE_MS, answer_of
from ottla.ports import Clock
from ottla.protocol.messages.produce import (
    ACKS_NONE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.replication.partition import NOT_KNOWN_TO_LAST
from ottla.services import Deferred

PRODUCE_VERSION = 9
"""Names topics and not their ids, and is served by every Kafka since 2.8."""
LEADER = 1
AGAIN = MOVED - {ErrorCode.KAFKA_STORAGE_ERROR}
CHANNEL = "http-produce"
LOST_LEADER = "The leader was lost on the way: it is not known whether this was written."
HALF_WAY = frozenset((NOT_KNOWN_TO_LAST, LOST_LEADER))
"""What is said of messages that may have been written."""

Part = tuple[list[Message], list[bytes | None]]
"""The messages for one partition, and their keys."""


Outcome = int | None | BaseException
"""The offset of the first message of a partition, None where nobody waited for it, or what went wrong."""
Told = tuple[int, dict[str, Any]]
"""The status, and what is said."""


class Attempt:
    """Batches on their way to their one leader."""

    __slots__ = ("acks", "answer", "encoding", "messages", "parts", "single", "topic")

    def __init__(
        self, topic: str, messages: int, parts: dict[int, Part], encoding: Encoding, acks: int, *, single: bool
    ) -> None:
        self.topic = topic
        self.messages = messages
        self.parts = parts
        self.encoding = encoding
        self.acks = acks
        self.single = single
        self.answer: Deferred[ProduceResponse]


class Producing:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._turns = count()
        self.messages = 0
        """Written so far."""

    def attempt(self, topic: str, messages: list[Message], encoding: Encoding, *, single: bool) -> Attempt | None:
        """None, and nothing is sent, where it takes more than one request to one known broker."""
        ways = self._cluster.ways
        partitions = ways.partition_count(topic)
        acks = strongest_acks(messages)
        if partitions is None or acks == ACKS_NONE:
            return None
        parts = self._parts(messages, encoding, partitions)
        leader = self._one_leader(topic, parts)
        if leader is None:
            return None
        attempt = Attempt(topic, len(messages), parts, encoding, acks, single=single)
        now_ms = self._clock.now_ms()
        batches = [(partition, _batch(part, encoding, now_ms)) for partition, part in parts.items()]
        attempt.answer = self._send(leader, topic, batches, acks, self._cluster.timeout_ms)
        return attempt

    def _one_leader(self, topic: str, parts: dict[int, Part]) -> int | None:
        ways, found = self._cluster.ways, None
        for partition in parts:
            leader = ways.leader(topic, partition)
            if leader is None or leader < 0 or (found is not None and leader != found):
                return None
            found = leader
        return found

    def outcome(self, attempt: Attempt) -> Told | None:
        """What is told of an attempt that was answered; None if something of it is to be tried again."""
        answer = attempt.answer.value
        if answer is None:
            return self._tell(attempt, _outcomes(attempt))
        written = answer.responses[0].partition_responses
        if attempt.single and not written[0].error_code:
            self.messages += 1
            told = {"topic": attempt.topic, "partition": written[0].index, "offset": written[0].base_offset}
            return 200, told
        return self._tell(attempt, _outcomes(attempt))

    def _tell(self, attempt: Attempt, outcomes: dict[int, Outcome]) -> Told | None:
        if any(_is_again(outcome) for outcome in outcomes.values()):
            return None
        return self._told(attempt.topic, attempt.messages, attempt.parts, outcomes, attempt.acks, single=attempt.single)

    async def resume(self, attempt: Attempt) -> Told:
        """Go on with what an attempt has left over."""
        outcomes = _outcomes(attempt)
        left = {index: attempt.parts[index] for index, outcome in outcomes.items() if _is_again(outcome)}
        await self._cluster.pause(attempt.topic)
        outcomes |= await self._write_all(attempt.topic, left, attempt.encoding, attempt.acks)
        return self._told(attempt.topic, attempt.messages, attempt.parts, outcomes, attempt.acks, single=attempt.single)

    async def produce(self, topic: str, messages: list[Message], encoding: Encoding, *, single: bool) -> Told:
        acks = strongest_acks(messages)
        parts = await self._by_partition(topic, messages, encoding)
        outcomes = await self._write_all(topic, parts, encoding, acks)
        return self._told(topic, len(messages), parts, outcomes, acks, single=single)

    async def _write_all(self, topic: str, parts: dict[int, Part], encoding: Encoding, acks: int) -> dict[int, Outcome]:
        if len(parts) == 1:
            [(partition, part)] = parts.items()
            return {partition: await self._write(topic, partition, part, encoding, acks)}
        outcomes = await asyncio.gather(
            *(self._write(topic, partition, part, encoding, acks) for partition, part in parts.items()),
            return_exceptions=True,
        )
        return dict(zip(parts, outcomes, strict=True))

    def _told(
        self,
        topic: str,
        messages: int,
        parts: dict[int, Part],
        outcomes: dict[int, Outcome],
        acks: int,
        *,
        single: bool,
    ) -> Told:
        written, failure = [], None
        for partition, part in parts.items():
            outcome = outcomes[partition]
            if isinstance(outcome, BaseException):
                failure = outcome
            else:
                self.messages += len(part[0])
                written.append({"partition": partition, "offset": outcome, "count": len(part[0])})
        if failure is not None:
            raise of_broker(failure, written=written) if _is_partial(failure, parts) else failure
        status = 200 if acks else 202
        if single:
            return status, {"topic": topic, "partition": written[0]["partition"], "offset": written[0]["offset"]}
        return status, {"topic": topic, "count": messages, "partitions": written}

    async def _by_partition(self, topic: str, messages: list[Message], encoding: Encoding) -> dict[int, Part]:
        ways = self._cluster.ways
        partitions = ways.partition_count(topic)
        if partitions is None:
            await ways.refresh(topic)
            partitions = ways.partition_count(topic)
            if partitions is None:
                raise unknown_topic(topic)
        return self._parts(messages, encoding, partitions)

    def _parts(self, messages: list[Message], encoding: Encoding, partitions: int) -> dict[int, Part]:
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
        batch = _batch(part, encoding, self._clock.now_ms())
        cluster = self._cluster
        deadline = Deadline(cluster.timeout_ms)
        while True:
            try:
                leader = cluster.ways.leader(topic, partition)
                if leader is None or leader < 0:
                    leader = await cluster.leader_of(topic, partition, deadline)
                left_ms = deadline.left_ms
                answer = self._send(leader, topic, ((partition, batch),), acks, left_ms)
                if acks == ACKS_NONE:
                    return None
                return await answer_of(answer, left_ms + GRACE_MS, _base_offset)
            except BrokerError as error:
                if not _is_again(error) or deadline.left_ms <= RETRY_MS:
                    raise _explained(error) from None
            await cluster.pause(topic)

    def _send(
        self, leader: int, topic: str, batches: Iterable[tuple[int, bytes]], acks: int, timeout_ms: int
    ) -> Deferred[ProduceResponse]:
        data = [PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in batches]
        request = ProduceRequest(
            acks=acks or LEADER,
            timeout_ms=timeout_ms,
            topic_data=(TopicProduceData(name=topic, partition_data=data),),
        )
        return self._cluster.ways.send(
            leader, request, version=PRODUCE_VERSION, timeout_ms=timeout_ms + GRACE_MS, channel=CHANNEL
        )


def _batch(part: Part, encoding: Encoding, now_ms: int) -> bytes:
    try:
        return build(*part, encoding, now_ms)
    except UnicodeEncodeError as error:
        raise bad_request(f"A message is not text: {error}.") from None


def _outcomes(attempt: Attempt) -> dict[int, Outcome]:
    """By partition."""
    answer = attempt.answer
    if answer.value is None:
        error = _explained(answer.error or BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR))
        return dict.fromkeys(attempt.parts, error)
    return {told.index: _outcome(told) for told in answer.value.responses[0].partition_responses}


def _outcome(told: PartitionProduceResponse) -> Outcome:
    if not told.error_code:
        return told.base_offset
    return _explained(BrokerError(ErrorCode(told.error_code), told.error_message or ""))


def _is_again(outcome: Outcome) -> bool:
    """Whether nothing was written, and may be written elsewhere or a little later."""
    return isinstance(outcome, BrokerError) and outcome.code in AGAIN and outcome.message not in HALF_WAY


def _is_partial(failure: BaseException, parts: dict[int, Part]) -> TypeGuard[BrokerError]:
    """Others may have been written: then the caller is told which."""
    return len(parts) > 1 and isinstance(failure, BrokerError)


def unknown_topic(topic: str) -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")


def _base_offset(answer: ProduceResponse) -> int:
    told = answer.responses[0].partition_responses[0]
    if told.error_code:
        raise BrokerError(ErrorCode(told.error_code), told.error_message or "")
    return told.base_offset


def _explained(error: BrokerError) -> BrokerError:
    if error.code is ErrorCode.NETWORK_EXCEPTION or error.message in HALF_WAY:
        return BrokerError(error.code, LOST_LEADER)
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        return BrokerError(error.code, "It was not acknowledged in time: it is not known whether it will last.")
    return error

"""Produce: append record batches and answer when they are as safe as the client asked.

The hottest handler. Everything in it is per batch; a batch is never looked into here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.leader_hints import client_endpoints, leader_of
from ottla.handlers.registry import handles
from ottla.handlers.transactional_writes import produce_in_transaction
from ottla.protocol.messages.produce import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    BY_TOPIC_ID_FROM,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.services import Deferred, RequestContext
from ottla.storage.log import Origin

if TYPE_CHECKING:
    from ottla.replication.partition import Partition
    from ottla.types import TopicId

log_lines = logging.getLogger(__name__)

Wait: TypeAlias = "tuple[Partition, int, tuple[list[PartitionProduceResponse], int]]"
"""A partition, the offset that must be committed, and where in the answer that is said."""

ACKS = (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
NUMBERS_ARE_WRONG = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Of a batch of an idempotent producer."""
LEADER_HINTS_FROM = 10


@handles(ProduceRequest)
def produce(request: ProduceRequest, ctx: RequestContext) -> ProduceResponse | Deferred[ProduceResponse] | None:
    if request.acks not in ACKS:
        message = f"acks must be -1, 0 or 1, not {request.acks}"
        return _refuse_all(request, BrokerError(ErrorCode.INVALID_REQUIRED_ACKS, message))
    if request.transactional_id is not None:
        return produce_in_transaction(request, ctx, _serve, refused)
    return _serve(request, ctx)


def _serve(request: ProduceRequest, ctx: RequestContext) -> ProduceResponse | Deferred[ProduceResponse] | None:
    services, acks = ctx.services, request.acks
    waits: list[Wait] | None = [] if acks == ACKS_ALL and services.partitions.has_followers else None
    leaders: set[int] = set()
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=_append(topic, acks, waits, leaders, ctx),
            )
            for topic in request.topic_data
        ],
        throttle_time_ms=_throttle_ms(request, ctx) if services.quotas.active else 0,
        node_endpoints=_endpoints(leaders, ctx) if leaders else (),
    )
    if acks == ACKS_NONE:
        return None
    if waits:
        return services.acks.when_committed(response, waits, not_committed, request.timeout_ms)
    return services.committer.after_commit(response, storage_failed)


def _append(
    topic: TopicProduceData, acks: int, waits: list[Wait] | None, leaders: set[int], ctx: RequestContext
) -> list[PartitionProduceResponse]:
    """Adds to `waits` what must be committed, and to `leaders` those to turn to for what is led elsewhere."""
    services, now_ms = ctx.services, ctx.now_ms
    append, partitions, room = services.committer.append, services.partitions, services.room
    is_full = room.is_full and room.look()
    name: str | TopicId = topic.name
    find: Callable[[Any, int], Partition] = partitions.get
    if ctx.api_version >= BY_TOPIC_ID_FROM:
        name, find = topic.topic_id, partitions.get_by_id
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        try:
            if data.records is None:
                raise BrokerError(ErrorCode.INVALID_RECORD, "there are no records")
            try:
                partition = find(name, data.index)
            except BrokerError as error:
                partitions.turn_away(name, data.index, data.records, error.code)
                raise
            if acks == ACKS_ALL and not partition.is_safe:
                raise partition.log.refuse(data.records, ErrorCode.NOT_ENOUGH_REPLICAS)
            if is_full:
                raise partition.log.refuse(data.records, ErrorCode.KAFKA_STORAGE_ERROR)
            base_offset = append(partition, data.records, now_ms=now_ms, origin=Origin.CLIENT)
        except BrokerError as error:
            answers.append(_refused_at(topic, data.index, error, leaders, ctx))
            continue
        log = partition.log
        if waits is not None:
            waits.append((partition, log.end_offset, (answers, len(answers))))
        answers.append(
            PartitionProduceResponse(
                index=data.index,
                base_offset=base_offset,
                log_append_time_ms=now_ms if log.stamps_append_time else -1,
                log_start_offset=log.start_offset,
            )
        )
    return answers


def not_committed(at: tuple[list[PartitionProduceResponse], int], error: BrokerError) -> None:
    """What was appended may be taken back, or is not safe enough yet."""
    answers, number = at
    answers[number] = refused(answers[number].index, error)


def _refused_at(
    topic: TopicProduceData, index: int, error: BrokerError, leaders: set[int], ctx: RequestContext
) -> PartitionProduceResponse:
    """With the new leader, if that is what is wrong: the client need not ask for it."""
    note_refusal(topic.name, topic.topic_id, index, error, ctx)
    if error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER or ctx.api_version < LEADER_HINTS_FROM:
        return refused(index, error)
    leader_id, leader_epoch = leader_of(ctx.image, topic.name, topic.topic_id, index)
    leaders.add(leader_id)
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=-1,
        error_message=error.message or None,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
    )


def note_refusal(topic: str, topic_id: TopicId, index: int, error: BrokerError, ctx: RequestContext) -> None:
    """Count it. Where its numbers are wrong a client may have to send again what is stored: that is told, too."""
    refusals = ctx.services.refusals
    refusals.count("Produce", error.code.name)
    if error.code in NUMBERS_ARE_WRONG and refusals.may_tell(ctx.now_ms):
        known = None if topic else ctx.image.topics_by_id.get(topic_id)
        log_lines.warning(
            "a batch was refused: %s",
            error.message,
            extra={
                "error": error.code.name,
                "partition": f"{known.name if known else topic}-{index}",
                "client": ctx.client_id,
                "host": ctx.client_host,
            },
        )


def _endpoints(leaders: set[int], ctx: RequestContext) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in client_endpoints(ctx.image, leaders)
    ]


def refused(index: int, error: BrokerError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=-1,
        error_message=error.message or None,
        record_errors=[BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=error.message)]
        if error.code == ErrorCode.INVALID_RECORD
        else [],
    )


def _refuse_all(request: ProduceRequest, error: BrokerError) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[refused(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def storage_failed(response: ProduceResponse, error: BrokerError) -> ProduceResponse:
    """The commit failed: nothing that this answer promised is true, and what had been refused stays refused."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    partition if partition.error_code else refused(partition.index, error)
                    for partition in topic.partition_responses
                ],
            )
            for topic in response.responses
        ]
    )


def _throttle_ms(request: ProduceRequest, ctx: RequestContext) -> int:
    size_bytes = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    return ctx.services.quotas.produced(ctx.principal, ctx.client_id, size_bytes, ctx.now_ms)

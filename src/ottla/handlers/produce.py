"""Produce: append record batches and answer when they are as safe as the client asked.

The hottest handler. Everything in it is per batch; a batch is never looked into here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.leader_hints import client_endpoints, leader_of
from ottla.handlers.registry import handles
from ottla.handlers.transactional_writes import produce_in_transaction
from ottla.protocol.messages.produce import (
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
    from ottla.ports import Bytes
    from ottla.replication.partition import Partition

Wait: TypeAlias = "tuple[Partition, int, tuple[list[PartitionProduceResponse], int]]"
"""A partition, the offset that must be committed, and where in the answer that is said."""

ACKS_NONE = 0
ACKS_ALL = -1
ACKS_LEADER = 1
ACKS = (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
BY_TOPIC_ID_FROM = 13
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
        return services.acks.when_committed(response, waits, _not_committed, request.timeout_ms)
    return services.committer.after_commit(response, _storage_failed)


def _append(
    topic: TopicProduceData, acks: int, waits: list[Wait] | None, leaders: set[int], ctx: RequestContext
) -> list[PartitionProduceResponse]:
    """Adds to `waits` what must be committed, and to `leaders` those to turn to for what is led elsewhere."""
    services, now_ms = ctx.services, ctx.now_ms
    append, room = services.committer.append, services.room
    is_full = room.is_full and room.look()
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        try:
            if data.records is None:
                raise BrokerError(ErrorCode.INVALID_RECORD, "there are no records")
            partition = _partition(topic, data.index, data.records, ctx)
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


def _partition(topic: TopicProduceData, index: int, records: Bytes, ctx: RequestContext) -> Partition:
    partitions, by_name = ctx.services.partitions, ctx.api_version < BY_TOPIC_ID_FROM
    try:
        return partitions.get(topic.name, index) if by_name else partitions.get_by_id(topic.topic_id, index)
    except BrokerError as error:
        partitions.turn_away(topic.name if by_name else topic.topic_id, index, records, error.code)
        raise


def _not_committed(at: tuple[list[PartitionProduceResponse], int], error: BrokerError) -> None:
    """What was appended may be taken back, or is not safe enough yet."""
    answers, number = at
    answers[number] = refused(answers[number].index, error)


def _refused_at(
    topic: TopicProduceData, index: int, error: BrokerError, leaders: set[int], ctx: RequestContext
) -> PartitionProduceResponse:
    """With the new leader, if that is what is wrong: the client need not ask for it."""
    ctx.services.refusals.count("Produce", error.code.name)
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


def _storage_failed(response: ProduceResponse, error: BrokerError) -> ProduceResponse:
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

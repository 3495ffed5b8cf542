"""Produce: append record batches and answer when they are as safe as the client asked.

The hottest handler. Everything in it is per batch; a batch is never looked into here.
"""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.services import Deferred, RequestContext
from ottla.storage.log import Origin

ACKS_NONE = 0
ACKS_ALL = -1
ACKS = (ACKS_ALL, ACKS_NONE, 1)
BY_TOPIC_ID_FROM = 13


@handles(ProduceRequest)
def produce(request: ProduceRequest, ctx: RequestContext) -> ProduceResponse | Deferred[ProduceResponse] | None:
    refusal = _refusal(request)
    if refusal is not None:
        return None if request.acks == ACKS_NONE else _refuse_all(request, refusal)
    services = ctx.services
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=_append(topic, request.acks, ctx)
            )
            for topic in request.topic_data
        ],
        throttle_time_ms=_throttle_ms(request, ctx) if services.quotas.active else 0,
    )
    if request.acks == ACKS_NONE:
        return None
    return services.committer.after_commit(response, _storage_failed)


def _refusal(request: ProduceRequest) -> BrokerError | None:
    if request.acks not in ACKS:
        return BrokerError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {request.acks}")
    if request.transactional_id is not None:
        return BrokerError(ErrorCode.INVALID_TXN_STATE, "this node does not serve transactions")
    return None


def _append(topic: TopicProduceData, acks: int, ctx: RequestContext) -> list[PartitionProduceResponse]:
    services, now_ms = ctx.services, ctx.now_ms
    append, partitions = services.committer.append, services.partitions
    answers = []
    for data in topic.partition_data:
        try:
            if ctx.api_version < BY_TOPIC_ID_FROM:
                partition = partitions.get(topic.name, data.index)
            else:
                partition = partitions.get_by_id(topic.topic_id, data.index)
            if data.records is None:
                raise BrokerError(ErrorCode.INVALID_RECORD, "there are no records")
            if acks == ACKS_ALL and partition.in_sync_replicas < partition.log.config.min_insync_replicas:
                raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
            base_offset = append(partition, data.records, now_ms=now_ms, origin=Origin.CLIENT)
        except BrokerError as error:
            answers.append(_refused(data.index, error))
            continue
        log = partition.log
        answers.append(
            PartitionProduceResponse(
                index=data.index,
                base_offset=base_offset,
                log_append_time_ms=now_ms if log.stamps_append_time else -1,
                log_start_offset=log.start_offset,
            )
        )
    return answers


def _refused(index: int, error: BrokerError) -> PartitionProduceResponse:
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
                partition_responses=[_refused(data.index, error) for data in topic.partition_data],
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
                    partition if partition.error_code else _refused(partition.index, error)
                    for partition in topic.partition_responses
                ],
            )
            for topic in response.responses
        ]
    )


def _throttle_ms(request: ProduceRequest, ctx: RequestContext) -> int:
    size_bytes = sum(len(data.records or b"") for topic in request.topic_data for data in topic.partition_data)
    return ctx.services.quotas.produced(ctx.principal, ctx.client_id, size_bytes, ctx.now_ms)

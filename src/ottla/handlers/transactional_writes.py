"""Records of transactions, on their way into partitions: Produce, and the offsets of TxnOffsetCommit.

A partition takes the first records of a transaction only if the coordinator says that they belong to it (KIP-890): a
zombie, or a request that was delayed, must not leave an open transaction behind that nobody will ever end. Clients of
version 2 leave it to this very question to add the partition; older ones have added it themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.produce import (
    BY_TOPIC_ID_FROM,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.records import BATCH_HEADER, RECORDS_AT, TRANSACTIONAL_BIT
from ottla.replication.partition import Partition
from ottla.services import Deferred, RequestContext, gather
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition

ABORTABLE_FROM = 11
"""Produce version from which clients know TRANSACTION_ABORTABLE."""
ADDS_FROM = 12
"""Produce version that adds partitions to the transaction by itself."""
ASK_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Nothing was decided: the client should try again, and knows nothing of coordinators here."""

Serve = Callable[[ProduceRequest, RequestContext], "ProduceResponse | Deferred[ProduceResponse] | None"]
Refuse = Callable[[int, BrokerError], PartitionProduceResponse]
Refusals = Mapping[TopicPartition, BrokerError]


class First(NamedTuple):
    """A batch that would begin its producer's transaction in a partition."""

    partition: Partition
    producer: Producer
    sequence: int
    markers: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)


def produce_in_transaction(
    request: ProduceRequest, ctx: RequestContext, serve: Serve, refuse: Refuse
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    """Ask the coordinators about what is new to a partition, then let `serve` do what they allow."""
    firsts = _firsts(request, ctx)
    if not firsts:
        return serve(request, ctx)
    by_producer: dict[Producer, list[First]] = {}
    for first in firsts:
        first.partition.log.producers.expect(*first.producer, first.sequence)
        by_producer.setdefault(first.producer, []).append(first)
    adds = ctx.api_version >= ADDS_FROM
    asked = [
        ctx.services.transactions.join(
            request.transactional_id or "", producer, frozenset(first.at for first in some), adds=adds
        )
        for producer, some in by_producer.items()
    ]
    if all(answer.done for answer in asked):
        codes = {at: code for answer in asked for at, code in (answer.value or {}).items()}
        return _serve_allowed(request, ctx, firsts, codes, serve, refuse)
    return _serve_later(_kept(request), ctx.copy(), firsts, asked, serve, refuse)


def _serve_later(
    request: ProduceRequest,
    ctx: RequestContext,
    firsts: list[First],
    asked: list[Deferred[Mapping[TopicPartition, ErrorCode]]],
    serve: Serve,
    refuse: Refuse,
) -> Deferred[ProduceResponse]:
    answer: Deferred[ProduceResponse] = Deferred()

    def joined(done: Deferred[dict[TopicPartition, ErrorCode]]) -> None:
        response = _serve_allowed(request, ctx, firsts, done.value or {}, serve, refuse)
        if isinstance(response, Deferred):
            response.on_done(served)
        else:
            answer.complete(response or ProduceResponse())

    def served(done: Deferred[ProduceResponse]) -> None:
        if done.error is not None:
            answer.fail(done.error)
        else:
            answer.complete(done.value or ProduceResponse())

    gather(asked, _merge).on_done(joined)
    return answer


def _merge(parts: object) -> dict[TopicPartition, ErrorCode]:
    merged: dict[TopicPartition, ErrorCode] = {}
    for part in parts:  # type: ignore[attr-defined]  # gather gives a sequence
        if not isinstance(part, BrokerError):
            merged.update(part)
    return merged


def _firsts(request: ProduceRequest, ctx: RequestContext) -> list[First]:
    firsts = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            first = _first(topic, data, ctx)
            if first is not None:
                firsts.append(first)
    return firsts


def _first(topic: TopicProduceData, data: PartitionProduceData, ctx: RequestContext) -> First | None:
    """None for a batch that goes on with a transaction, is in none, or will be refused for another reason."""
    records = data.records
    if records is None or len(records) < RECORDS_AT:
        return None
    fields = BATCH_HEADER.unpack_from(records)
    attributes, producer_id, epoch, sequence = fields[5], fields[9], fields[10], fields[11]
    if not attributes & TRANSACTIONAL_BIT or producer_id < 0:
        return None
    try:
        partition = find_partition(topic, data.index, ctx)
    except BrokerError:
        return None
    producers = partition.log.producers
    if producers.has_open_transaction(producer_id, epoch):
        return None
    return First(partition, Producer(producer_id, epoch), sequence, producers.markers_of(producer_id))


def find_partition(topic: TopicProduceData, index: int, ctx: RequestContext) -> Partition:
    if ctx.api_version < BY_TOPIC_ID_FROM:
        return ctx.services.partitions.get(topic.name, index)
    return ctx.services.partitions.get_by_id(topic.topic_id, index)


# Once the coordinators have answered


def _serve_allowed(
    request: ProduceRequest,
    ctx: RequestContext,
    firsts: list[First],
    codes: Mapping[TopicPartition, ErrorCode],
    serve: Serve,
    refuse: Refuse,
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    refusals = {first.at: error for first in firsts if (error := _refusal(first, codes, ctx.api_version)) is not None}
    if not refusals:
        return serve(request, ctx)
    names = {first.at: first.partition.topic_id for first in firsts}
    refused_ids = {(names[at], at.partition): error for at, error in refusals.items()}

    def error_of(topic: TopicProduceData, index: int) -> BrokerError | None:
        return refusals.get(TopicPartition(topic.name, index)) or refused_ids.get((topic.topic_id, index))

    allowed = ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[data for data in topic.partition_data if error_of(topic, data.index) is None],
            )
            for topic in request.topic_data
        ],
    )

    def with_refused(response: ProduceResponse) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        *served.partition_responses,
                        *(
                            refuse(data.index, error)
                            for data in topic.partition_data
                            if (error := error_of(topic, data.index)) is not None
                        ),
                    ],
                )
                for topic, served in zip(request.topic_data, response.responses, strict=True)
            ],
            throttle_time_ms=response.throttle_time_ms,
            node_endpoints=response.node_endpoints,
        )

    answer = serve(allowed, ctx)
    if isinstance(answer, Deferred):
        return answer.then(with_refused)
    return None if answer is None else with_refused(answer)


def _refusal(first: First, codes: Mapping[TopicPartition, ErrorCode], version: int) -> BrokerError | None:
    code = produce_error(codes.get(first.at, ErrorCode.UNKNOWN_SERVER_ERROR), version)
    if code:
        return BrokerError(code, f"{first.at} could not be written to in the transaction of {first.producer}")
    producers = first.partition.log.producers
    if version < ADDS_FROM and producers.markers_of(first.producer.producer_id) != first.markers:
        # What was asked about has ended meanwhile. From version 2 on that would have raised the epoch, as the log
        # knows, and a marker that comes meanwhile is of the transaction before.
        return BrokerError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")
    try:
        producers.check_expected(*first.producer, first.sequence)
    except BrokerError as overtakes:
        return overtakes
    return None


def produce_error(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer is told of its coordinator's answer."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= ADDS_FROM:
        return code
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in ASK_AGAIN else code


def _kept(request: ProduceRequest) -> ProduceRequest:
    """The request with bytes of its own: those that it came with are the connection's, and go on being used."""
    return ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[
                    PartitionProduceData(
                        index=data.index, records=None if data.records is None else bytes(data.records)
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )

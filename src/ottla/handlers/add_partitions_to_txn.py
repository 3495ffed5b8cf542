"""AddPartitionsToTxn: partitions join a transaction, or are found to have joined it.

Clients name one transaction (up to v3); leaders that hold records of transactions ask about several, and may only want
to know (v4 on, see `handlers.transactional_writes`). All partitions of a transaction are added, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import ask, older
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.services import Deferred, RequestContext, gather
from ottla.transactions.transaction import BUMPS_EPOCH_FROM, Producer
from ottla.types import TopicPartition

FROM_BROKERS_SINCE = 4
KNOWS_FENCED_FROM = 2
Codes = Mapping[TopicPartition, ErrorCode]


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: RequestContext
) -> Deferred[AddPartitionsToTxnResponse]:
    if ctx.api_version >= FROM_BROKERS_SINCE:
        return gather(
            [_for_broker(transaction, ctx) for transaction in request.transactions],
            lambda results: AddPartitionsToTxnResponse(
                results_by_transaction=[result for result in results if not isinstance(result, BrokerError)]
            ),
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    knows_fenced = ctx.api_version >= KNOWS_FENCED_FROM
    return _serve(only, 0, ctx).then(
        lambda codes: AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_topics(
                only.topics, codes if knows_fenced else {at: older(code) for at, code in codes.items()}
            )
        )
    )


def _for_broker(transaction: AddPartitionsToTxnTransaction, ctx: RequestContext) -> Deferred[AddPartitionsToTxnResult]:
    return _serve(transaction, BUMPS_EPOCH_FROM, ctx).then(
        lambda codes: AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id, topic_results=_topics(transaction.topics, codes)
        )
    )


def _serve(transaction: AddPartitionsToTxnTransaction, client_version: int, ctx: RequestContext) -> Deferred[Codes]:
    transactions, transactional_id = ctx.services.transactions, transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    partitions = frozenset(
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    )
    unknown = {at for at in partitions if ctx.image.partition(*at) is None}
    if unknown:
        return _refused({at: _missing(at in unknown) for at in partitions})
    if not transactional_id:
        return _refused(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
    if transaction.verify_only:
        return ask(
            lambda: transactions.call(
                transactional_id,
                lambda shard, _token, _now_ms: shard.verify_partitions(transactional_id, producer, partitions),
            ),
            lambda code: dict.fromkeys(partitions, code),
        )
    added = ask(
        lambda: transactions.call(
            transactional_id,
            lambda shard, token, now_ms: shard.add_partitions(
                transactional_id, producer, partitions, client_version, token, now_ms
            ),
        ),
        lambda code: code,
    )
    return added.then(lambda code: dict.fromkeys(partitions, code))


def _missing(is_unknown: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.OPERATION_NOT_ATTEMPTED


def _refused(codes: Codes) -> Deferred[Codes]:
    answer: Deferred[Codes] = Deferred()
    answer.complete(codes)
    return answer


def _topics(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]

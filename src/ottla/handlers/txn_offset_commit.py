"""TxnOffsetCommit: offsets that count only if the producer's transaction commits.

From v5 on the request itself adds the group's partition to the transaction; before, it was added by AddOffsetsToTxn,
and the coordinator is asked whether it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.group_calls import ask, unknown_partitions
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import ADDS_OFFSETS_FROM
from ottla.handlers.transactional_writes import ASK_AGAIN
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.services import Deferred, RequestContext
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition

KNOWS_LOADING_FROM = 2
ABORTABLE_FROM = 4


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(request: TxnOffsetCommitRequest, ctx: RequestContext) -> Deferred[TxnOffsetCommitResponse]:
    answer: Deferred[TxnOffsetCommitResponse] = Deferred()
    version, later = ctx.api_version, ctx.copy()

    def refuse(code: ErrorCode) -> None:
        answer.complete(_refused(request, _told(code, version)))

    def joined(done: Deferred[Mapping[TopicPartition, ErrorCode]]) -> None:
        code = next(iter((done.value or {}).values()), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if code:
            refuse(code)
        else:
            _commit(request, later).on_done(committed)

    def committed(done: Deferred[TxnOffsetCommitResponse]) -> None:
        answer.complete(done.value or _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))

    try:
        ctx.groups.require_here(request.group_id)
        at = ctx.services.transactions.offsets_partition(request.group_id)
    except BrokerError as error:
        refuse(error.code)
        return answer
    ctx.services.transactions.join(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset({at}),
        adds=version >= ADDS_OFFSETS_FROM,
    ).on_done(joined)
    return answer


def _commit(request: TxnOffsetCommitRequest, ctx: RequestContext) -> Deferred[TxnOffsetCommitResponse]:
    unknown = unknown_partitions(ctx.image, request.topics)
    return ask(
        ctx,
        request.group_id,
        lambda shard, _, now_ms: shard.commit_transactional_offsets(request, now_ms, unknown),
        refused=lambda code: _refused(request, _told(code, ctx.api_version)),
    )


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer is told, which talks to the group's coordinator here and not to the transaction's."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return code if version >= KNOWS_LOADING_FROM else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= ADDS_OFFSETS_FROM:
        return code
    if code is ErrorCode.NOT_COORDINATOR:
        return code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in ASK_AGAIN else code


def _refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """There is no error of the whole answer, so it stands in each partition's."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

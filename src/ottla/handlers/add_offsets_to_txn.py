"""AddOffsetsToTxn: a group's offsets join a transaction, which is to say the partition that they are kept in."""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import ask, older
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.services import Deferred, RequestContext
from ottla.transactions.transaction import Producer

KNOWS_FENCED_FROM = 2


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: RequestContext) -> Deferred[AddOffsetsToTxnResponse]:
    if not request.transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    transactions, knows_fenced = ctx.services.transactions, ctx.api_version >= KNOWS_FENCED_FROM
    producer = Producer(request.producer_id, request.producer_epoch)
    added = ask(
        lambda: transactions.call(
            request.transactional_id,
            lambda shard, token, now_ms: shard.add_partitions(
                request.transactional_id,
                producer,
                frozenset({transactions.offsets_partition(request.group_id)}),
                0,
                token,
                now_ms,
            ),
        ),
        lambda code: code,
    )
    return added.then(lambda code: AddOffsetsToTxnResponse(error_code=code if knows_fenced else older(code)))

"""DescribeTransactions: what the coordinator of transactional ids knows of them."""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import ask
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.services import Deferred, RequestContext, gather


@handles(DescribeTransactionsRequest)
def describe_transactions(
    request: DescribeTransactionsRequest, ctx: RequestContext
) -> Deferred[DescribeTransactionsResponse]:
    return gather(
        [_describe(transactional_id, ctx) for transactional_id in request.transactional_ids],
        lambda states: DescribeTransactionsResponse(
            transaction_states=[state for state in states if not isinstance(state, BrokerError)]
        ),
    )


def _describe(transactional_id: str, ctx: RequestContext) -> Deferred[TransactionState]:
    def refused(code: ErrorCode) -> TransactionState:
        return TransactionState(transactional_id=transactional_id, error_code=code)

    if not transactional_id:
        answer: Deferred[TransactionState] = Deferred()
        answer.complete(refused(ErrorCode.INVALID_REQUEST))
        return answer
    return ask(
        lambda: ctx.services.transactions.call(
            transactional_id, lambda shard, _token, _now_ms: shard.describe(transactional_id)
        ),
        refused,
    )

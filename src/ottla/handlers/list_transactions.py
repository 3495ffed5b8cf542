"""ListTransactions: the transactional ids that this node coordinates, by filter."""

from __future__ import annotations

from ottla.handlers.registry import handles
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.services import RequestContext
from ottla.transactions.reports import read_filter


@handles(ListTransactionsRequest)
def list_transactions(request: ListTransactionsRequest, ctx: RequestContext) -> ListTransactionsResponse:
    wanted, unknown = read_filter(
        request.state_filters, request.producer_id_filters, request.duration_filter, request.transactional_id_pattern
    )
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            found for shard in ctx.services.transactions.shards() for found in shard.find(wanted, ctx.now_ms)
        ],
    )

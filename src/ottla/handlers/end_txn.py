"""EndTxn: a producer commits or aborts. From v5 on its epoch rises with it, and the answer says to what."""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import FENCED, ask, older
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.services import Deferred, RequestContext
from ottla.transactions.ending import End
from ottla.transactions.transaction import BUMPS_EPOCH_FROM, Producer

KNOWS_FENCED_FROM = 2
NEW_EPOCH_FROM = 5


@handles(EndTxnRequest)
def end_txn(request: EndTxnRequest, ctx: RequestContext) -> Deferred[EndTxnResponse]:
    if not request.transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    version = ctx.api_version
    end = End(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        BUMPS_EPOCH_FROM if version >= NEW_EPOCH_FROM else 0,
    )
    asked = ask(
        lambda: ctx.services.transactions.call_with_id(
            request.transactional_id,
            lambda shard, token, now_ms, fresh_id: shard.end(end, token, now_ms, fresh_id),
        ),
        _refused,
    )
    return asked.then(lambda answer: answer if version >= KNOWS_FENCED_FROM else _for_old_client(answer))


def _refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


def _for_old_client(answer: EndTxnResponse) -> EndTxnResponse:
    return _refused(older(answer.error_code)) if answer.error_code == FENCED else answer

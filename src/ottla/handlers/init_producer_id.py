"""InitProducerId: an identity for a producer; with a transactional id it is the only one that has it from then on."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.handlers.transaction_calls import FENCED, ask, older
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.services import Deferred, RequestContext

NOTHING_BEFORE = -1
KNOWS_FENCED_FROM = 4


@handles(InitProducerIdRequest)
def init_producer_id(request: InitProducerIdRequest, ctx: RequestContext) -> Deferred[InitProducerIdResponse]:
    if (request.producer_id == NOTHING_BEFORE) != (request.producer_epoch == NOTHING_BEFORE):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "producer id and epoch go together")
    if request.transactional_id is None:
        return ctx.services.producer_ids.next_id().then(
            lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        )
    if not request.transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    version = ctx.api_version
    asked = ask(
        lambda: ctx.services.transactions.call_with_id(
            request.transactional_id or "",
            lambda shard, token, now_ms, fresh_id: shard.init_producer_id(request, token, now_ms, fresh_id),
        ),
        _refused,
    )
    return asked.then(lambda answer: answer if version >= KNOWS_FENCED_FROM else _for_old_client(answer))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _for_old_client(answer: InitProducerIdResponse) -> InitProducerIdResponse:
    return _refused(older(answer.error_code)) if answer.error_code == FENCED else answer

"""InitProducerId: an identity for an idempotent producer."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.services import Deferred, RequestContext

NOTHING_BEFORE = -1


@handles(InitProducerIdRequest, versions=(0, 5))
def init_producer_id(request: InitProducerIdRequest, ctx: RequestContext) -> Deferred[InitProducerIdResponse]:
    if request.transactional_id is not None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "this node does not serve transactions")
    if (request.producer_id == NOTHING_BEFORE) != (request.producer_epoch == NOTHING_BEFORE):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "producer id and epoch go together")
    return ctx.services.producer_ids.next_id().then(
        lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    )

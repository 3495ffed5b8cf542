"""AllocateProducerIds: a block of producer ids for a broker to hand out."""

from ottla.errors import BrokerError
from ottla.handlers.broker_calls import ask_at
from ottla.handlers.registry import handles
from ottla.metadata.producer_ids import ProducerIdBlock
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.services import Deferred, RequestContext


@handles(AllocateProducerIdsRequest)
def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: RequestContext
) -> Deferred[AllocateProducerIdsResponse]:
    return ask_at(
        ctx,
        lambda controller, _: controller.allocate_producer_ids(request.broker_id, request.broker_epoch),
        _granted,
        _refused,
    )


def _granted(block: ProducerIdBlock) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)


def _refused(error: BrokerError) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error.code)

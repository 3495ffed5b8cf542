"""AlterPartition: a leader asks for other in-sync replicas."""

from ottla.errors import BrokerError
from ottla.handlers.broker_calls import ask_at
from ottla.handlers.registry import handles
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.services import Deferred, RequestContext


@handles(AlterPartitionRequest)
def alter_partition(request: AlterPartitionRequest, ctx: RequestContext) -> Deferred[AlterPartitionResponse]:
    return ask_at(ctx, lambda controller, _: controller.alter_partition(request), lambda response: response, _refused)


def _refused(error: BrokerError) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=error.code)

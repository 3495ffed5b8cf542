"""AlterPartitionReassignments: partitions move to other brokers, or a move is taken back."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.services import Deferred, RequestContext


@handles(AlterPartitionReassignmentsRequest, controller=True)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext
) -> Deferred[AlterPartitionReassignmentsResponse]:
    return ask_controller(ctx, lambda controller: controller.alter_partition_reassignments(request), _refused)


def _refused(error: BrokerError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=str(error))

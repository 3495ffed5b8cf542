"""ListPartitionReassignments: the moves of partitions that are under way."""

from ottla.handlers.registry import handles
from ottla.metadata.reassignments import list_partition_reassignments as list_reassignments
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.services import RequestContext


@handles(ListPartitionReassignmentsRequest, controller=True)
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext
) -> ListPartitionReassignmentsResponse:
    return list_reassignments(ctx.image, request)

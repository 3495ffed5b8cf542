"""ElectLeaders: back to the preferred leaders, or any leader rather than none."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.services import Deferred, RequestContext


@handles(ElectLeadersRequest, controller=True)
def elect_leaders(request: ElectLeadersRequest, ctx: RequestContext) -> Deferred[ElectLeadersResponse]:
    return ask_controller(
        ctx, lambda controller: controller.elect_leaders(request), lambda error: _refused(request, error)
    )


def _refused(request: ElectLeadersRequest, error: BrokerError) -> ElectLeadersResponse:
    """Version 0 has no error for the whole, so each partition has it too."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )

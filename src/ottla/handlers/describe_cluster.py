"""DescribeCluster: the cluster's id, its controller and its brokers."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.operations import CLUSTER_OPERATIONS, if_asked
from ottla.handlers.registry import handles
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.services import RequestContext

BROKERS = 1
CONTROLLERS = 2


@handles(DescribeClusterRequest)
def describe_cluster(request: DescribeClusterRequest, ctx: RequestContext) -> DescribeClusterResponse:
    _require_brokers(request.endpoint_type)
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=ctx.services.cluster_id,
        controller_id=ctx.services.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=broker.endpoints[0].host,
                port=broker.endpoints[0].port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in ctx.image.brokers.values()
            if request.include_fenced_brokers or not broker.fenced
        ],
        cluster_authorized_operations=if_asked(CLUSTER_OPERATIONS, request.include_cluster_authorized_operations),
    )


def _require_brokers(endpoint_type: int) -> None:
    if endpoint_type == CONTROLLERS:
        raise BrokerError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is an endpoint for brokers, not for controllers")
    if endpoint_type != BROKERS:
        raise BrokerError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {endpoint_type}")

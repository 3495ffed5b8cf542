"""DescribeCluster (key 60): the brokers, the controller and the cluster id.

v1   whether the client asks for brokers or controllers
v2   fenced brokers on request
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=60, versions=(0, 2), flexible_from=0)
class DescribeClusterRequest(Request):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2)


class DescribeClusterBroker(Message):
    broker_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None
    is_fenced: bool = since(2)


@response(to=DescribeClusterRequest)
class DescribeClusterResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    endpoint_type: int8 = since(1, default=1)
    cluster_id: str = ""
    controller_id: int32 = -1
    brokers: Sequence[DescribeClusterBroker] = ()
    cluster_authorized_operations: int32 = INT32_MIN

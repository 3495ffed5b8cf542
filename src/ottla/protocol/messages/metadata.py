"""Metadata (key 3): who the brokers are, and who leads which partition.

v0   an empty list of topics asks for all
v1   null asks for all, an empty list for none; racks, the controller, internal topics
v2   the cluster id
v3   throttle time
v4   whether a topic that is asked for may be created
v5   replicas that are offline
v7   leader epochs
v8   operations that the client may do
v9   is the first flexible version
v10  topic ids in the answer
v11  the cluster's operations are left to DescribeCluster
v12  topics may be asked for by id
v13  an error code for the whole answer
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, nullable_since, request, response, since


class MetadataRequestTopic(Message):
    topic_id: Uuid = since(10)
    name: str | None = nullable_since(10)


@request(key=3, versions=(0, 13), flexible_from=9)
class MetadataRequest(Request):
    topics: Sequence[MetadataRequestTopic] | None = nullable_since(1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, until=10)
    include_topic_authorized_operations: bool = since(8)


class MetadataResponseBroker(Message):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = since(1, default=None)


class MetadataResponsePartition(Message):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = since(7, default=-1)
    replica_nodes: Sequence[int32] = ()
    isr_nodes: Sequence[int32] = ()
    offline_replicas: Sequence[int32] = since(5)


class MetadataResponseTopic(Message):
    error_code: int16 = 0
    name: str | None = nullable_since(12)
    topic_id: Uuid = since(10)
    is_internal: bool = since(1)
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int32 = since(8, default=INT32_MIN)


@response(to=MetadataRequest)
class MetadataResponse(Response):
    throttle_time_ms: int32 = since(3)
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: str | None = since(2, default=None)
    controller_id: int32 = since(1, default=-1)
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: int32 = since(8, until=10, default=INT32_MIN)
    error_code: int16 = since(13)

"""DescribeQuorum (key 55): leader, voters and observers of the metadata quorum.

v1   when each replica last fetched, and when it last had everything
v2   directory ids, error messages, the addresses of the nodes
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Uuid, int16, int32, int64, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since


class RequestPartitionData(Message):
    partition_index: int32 = 0


class RequestTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[RequestPartitionData] = ()


@request(key=55, versions=(0, 2), flexible_from=0)
class DescribeQuorumRequest(Request):
    topics: Sequence[RequestTopicData] = ()


class ReplicaState(Message):
    replica_id: int32 = 0
    replica_directory_id: Uuid = since(2)
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = since(1, default=-1)
    last_caught_up_timestamp: int64 = since(1, default=-1)


class ResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = since(2)
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class ResponseTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[ResponsePartitionData] = ()


class Listener(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0


class Node(Message):
    node_id: int32 = 0
    listeners: Sequence[Listener] = ()


@response(to=DescribeQuorumRequest)
class DescribeQuorumResponse(Response):
    error_code: int16 = 0
    error_message: str | None = since(2)
    topics: Sequence[ResponseTopicData] = ()
    nodes: Sequence[Node] = since(2)

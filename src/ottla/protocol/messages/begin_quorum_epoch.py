"""BeginQuorumEpoch (key 53): the new leader of the metadata quorum announces itself.

v1   is the first flexible version; the voter's directory id, and where the leader is
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Uuid, int16, int32, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged


class RequestPartitionData(Message):
    partition_index: int32 = 0
    voter_directory_id: Uuid = since(1)
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class RequestTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[RequestPartitionData] = ()


class LeaderEndpoint(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0


@request(key=53, versions=(0, 1), flexible_from=1)
class BeginQuorumEpochRequest(Request):
    cluster_id: str | None = None
    voter_id: int32 = since(1, default=-1)
    topics: Sequence[RequestTopicData] = ()
    leader_endpoints: Sequence[LeaderEndpoint] = since(1)


class ResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class ResponseTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[ResponsePartitionData] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@response(to=BeginQuorumEpochRequest)
class BeginQuorumEpochResponse(Response):
    error_code: int16 = 0
    topics: Sequence[ResponseTopicData] = ()
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=1)

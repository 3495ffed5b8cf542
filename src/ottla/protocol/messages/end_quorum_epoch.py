"""EndQuorumEpoch (key 54): the leader of the metadata quorum steps down and says who should follow.

v1   is the first flexible version; candidates with their directory ids, and where the leader is
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged, until


class ReplicaInfo(Message):
    candidate_id: int32 = 0
    candidate_directory_id: Uuid = NO_UUID


class RequestPartitionData(Message):
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    preferred_successors: Sequence[int32] = until(0)
    preferred_candidates: Sequence[ReplicaInfo] = since(1)


class RequestTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[RequestPartitionData] = ()


class LeaderEndpoint(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0


@request(key=54, versions=(0, 1), flexible_from=1)
class EndQuorumEpochRequest(Request):
    cluster_id: str | None = None
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


@response(to=EndQuorumEpochRequest)
class EndQuorumEpochResponse(Response):
    error_code: int16 = 0
    topics: Sequence[ResponseTopicData] = ()
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=1)

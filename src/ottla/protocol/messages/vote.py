"""Vote (key 52): a candidate of the metadata quorum asks for a vote.

v1   directory ids of voter and candidate; where the leader is
v2   pre-votes, which change nobody's epoch
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Uuid, int16, int32, int64, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged


class RequestPartitionData(Message):
    partition_index: int32 = 0
    replica_epoch: int32 = 0
    replica_id: int32 = 0
    replica_directory_id: Uuid = since(1)
    voter_directory_id: Uuid = since(1)
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: bool = since(2)


class RequestTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[RequestPartitionData] = ()


@request(key=52, versions=(0, 2), flexible_from=0)
class VoteRequest(Request):
    cluster_id: str | None = None
    voter_id: int32 = since(1, default=-1)
    topics: Sequence[RequestTopicData] = ()


class ResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    vote_granted: bool = False


class ResponseTopicData(Message):
    topic_name: str = ""
    partitions: Sequence[ResponsePartitionData] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@response(to=VoteRequest)
class VoteResponse(Response):
    error_code: int16 = 0
    topics: Sequence[ResponseTopicData] = ()
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=1)

"""ShareAcknowledge (key 79): a member of a share group says what became of records that it acquired."""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class AcknowledgementBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: Sequence[int8] = ()


class AcknowledgePartition(Message):
    partition_index: int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class AcknowledgeTopic(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[AcknowledgePartition] = ()


@request(key=79, versions=(1, 1), flexible_from=0)
class ShareAcknowledgeRequest(Request):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0
    topics: Sequence[AcknowledgeTopic] = ()


class LeaderIdAndEpoch(Message):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = since(0)


class ShareAcknowledgeTopicResponse(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@response(to=ShareAcknowledgeRequest)
class ShareAcknowledgeResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    responses: Sequence[ShareAcknowledgeTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()

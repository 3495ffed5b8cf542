"""ShareFetch (key 78): a member of a share group acquires records, and acknowledges earlier ones on the way."""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MAX, NO_UUID, RecordPieces, Uuid, int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class AcknowledgementBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: Sequence[int8] = ()


class FetchPartition(Message):
    partition_index: int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class FetchTopic(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[int32] = ()


@request(key=78, versions=(1, 1), flexible_from=0)
class ShareFetchRequest(Request):
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = INT32_MAX
    max_records: int32 = 0
    batch_size: int32 = 0
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()


class LeaderIdAndEpoch(Message):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = since(0)
    records: RecordPieces | None = None
    acquired_records: Sequence[AcquiredRecords] = ()


class ShareFetchableTopicResponse(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@response(to=ShareFetchRequest)
class ShareFetchResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: Sequence[ShareFetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()

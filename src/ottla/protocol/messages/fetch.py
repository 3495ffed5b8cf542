"""Fetch (key 1): consumers and followers read record batches, and wait for them if there are none.

v4   isolation level, and the aborted transactions that a reader must leave out
v5   log start offsets
v7   fetch sessions: later requests say only what changed
v9   the leader epoch that the reader knows, which fences it
v10  zstd may be returned
v11  the reader's rack, and the replica that it should rather read from
v12  is the first flexible version; followers find divergence by the epoch of their last record
v13  topics by id instead of by name
v15  a follower's id and epoch move into `replica_state`
v16  the answer names the new leader where the partition has moved
v17  the id of the follower's log directory
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MAX, RecordPieces, Uuid, int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged, until

BY_TOPIC_ID_FROM = 13
READ_COMMITTED = 1
"""The isolation level; the other one is 0."""


class ReplicaState(Message):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(Message):
    partition: int32 = 0
    current_leader_epoch: int32 = since(9, default=-1)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = since(12, default=-1)
    log_start_offset: int64 = since(5, default=-1)
    partition_max_bytes: int32 = 0
    replica_directory_id: Uuid = tagged(0, since=17)


class FetchTopic(Message):
    topic: str = until(12)
    topic_id: Uuid = since(13)
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(Message):
    topic: str = until(12)
    topic_id: Uuid = since(13)
    partitions: Sequence[int32] = ()


@request(key=1, versions=(4, 17), flexible_from=12)
class FetchRequest(Request):
    cluster_id: str | None = tagged(0, since=12, default=None)
    replica_id: int32 = until(14, default=-1)
    replica_state: ReplicaState = tagged(1, since=15)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = INT32_MAX
    isolation_level: int8 = 0
    session_id: int32 = since(7)
    session_epoch: int32 = since(7, default=-1)
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = since(7)
    rack_id: str = since(11)


class EpochEndOffset(Message):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Message):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Message):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Message):
    producer_id: int64 = 0
    first_offset: int64 = 0


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = -1
    log_start_offset: int64 = since(5, default=-1)
    diverging_epoch: EpochEndOffset = tagged(0, since=12)
    current_leader: LeaderIdAndEpoch = tagged(1, since=12)
    snapshot_id: SnapshotId = tagged(2, since=12)
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int32 = since(11, default=-1)
    records: RecordPieces | None = None


class FetchableTopicResponse(Message):
    topic: str = until(12)
    topic_id: Uuid = since(13)
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@response(to=FetchRequest)
class FetchResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(7)
    session_id: int32 = since(7)
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=16)

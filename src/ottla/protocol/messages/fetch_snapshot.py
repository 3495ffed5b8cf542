"""FetchSnapshot (key 59): a replica of the metadata log that is too far behind reads a snapshot.

v1   the replica's directory id, and where the leader is
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MAX, Records, Uuid, int16, int32, int64, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged


class SnapshotId(Message):
    end_offset: int64 = 0
    epoch: int32 = 0


class RequestPartitionSnapshot(Message):
    partition: int32 = 0
    current_leader_epoch: int32 = 0
    snapshot_id: SnapshotId = since(0)
    position: int64 = 0
    replica_directory_id: Uuid = tagged(0, since=1)


class RequestTopicSnapshot(Message):
    name: str = ""
    partitions: Sequence[RequestPartitionSnapshot] = ()


@request(key=59, versions=(0, 1), flexible_from=0)
class FetchSnapshotRequest(Request):
    cluster_id: str | None = tagged(0, default=None)
    replica_id: int32 = -1
    max_bytes: int32 = INT32_MAX
    topics: Sequence[RequestTopicSnapshot] = ()


class LeaderIdAndEpoch(Message):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class ResponsePartitionSnapshot(Message):
    index: int32 = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = since(0)
    current_leader: LeaderIdAndEpoch = tagged(0)
    size: int64 = 0
    position: int64 = 0
    unaligned_records: Records = b""


class ResponseTopicSnapshot(Message):
    name: str = ""
    partitions: Sequence[ResponsePartitionSnapshot] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: uint16 = 0


@response(to=FetchSnapshotRequest)
class FetchSnapshotResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: Sequence[ResponseTopicSnapshot] = ()
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=1)

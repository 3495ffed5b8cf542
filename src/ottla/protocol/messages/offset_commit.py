"""OffsetCommit (key 8): a group writes down how far it has read.

v2   how long to keep the offsets (gone again in v5: the broker's setting counts)
v3   throttle time
v6   the leader epoch of the last record that was read
v7   the static member's instance id
v8   is the first flexible version
v9   for members of the new consumer protocol too: may answer STALE_MEMBER_EPOCH
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class OffsetCommitRequestPartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = since(6, default=-1)
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: Sequence[OffsetCommitRequestPartition] = ()


@request(key=8, versions=(2, 9), flexible_from=8)
class OffsetCommitRequest(Request):
    group_id: str = ""
    generation_id_or_member_epoch: int32 = -1
    member_id: str = ""
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: int64 = until(4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = ()


class OffsetCommitResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: Sequence[OffsetCommitResponsePartition] = ()


@response(to=OffsetCommitRequest)
class OffsetCommitResponse(Response):
    throttle_time_ms: int32 = since(3)
    topics: Sequence[OffsetCommitResponseTopic] = ()

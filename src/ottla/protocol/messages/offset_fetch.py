"""OffsetFetch (key 9): how far a group has read.

v1   offsets come from the offsets topic
v2   null asks for all topics; an error code for the whole answer
v3   throttle time
v5   leader epochs
v6   is the first flexible version
v7   the client may ask to wait for open transactions (`require_stable`)
v8   several groups at once: the old fields are replaced by `groups`
v9   member id and epoch of the new consumer protocol
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class OffsetFetchRequestTopic(Message):
    name: str = ""
    partition_indexes: Sequence[int32] = ()


class OffsetFetchRequestTopics(Message):
    name: str = ""
    partition_indexes: Sequence[int32] = ()


class OffsetFetchRequestGroup(Message):
    group_id: str = ""
    member_id: str | None = since(9, default=None)
    member_epoch: int32 = since(9, default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = ()


@request(key=9, versions=(1, 9), flexible_from=6)
class OffsetFetchRequest(Request):
    group_id: str = until(7)
    topics: Sequence[OffsetFetchRequestTopic] | None = until(7, nullable_since=2)
    groups: Sequence[OffsetFetchRequestGroup] = since(8)
    require_stable: bool = since(7)


class OffsetFetchResponsePartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = since(5, default=-1)
    metadata: str | None = ""
    error_code: int16 = 0


class OffsetFetchResponseTopic(Message):
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()


class OffsetFetchResponsePartitions(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = -1
    metadata: str | None = ""
    error_code: int16 = 0


class OffsetFetchResponseTopics(Message):
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartitions] = ()


class OffsetFetchResponseGroup(Message):
    group_id: str = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: int16 = 0


@response(to=OffsetFetchRequest)
class OffsetFetchResponse(Response):
    throttle_time_ms: int32 = since(3)
    topics: Sequence[OffsetFetchResponseTopic] = until(7)
    error_code: int16 = since(2, until=7)
    groups: Sequence[OffsetFetchResponseGroup] = since(8)

"""ListOffsets (key 2): the offset at a time, or at a special timestamp.

-1 is the end, -2 the beginning, -3 the record with the largest timestamp (v7), -4 the beginning of what is on local
disk (v8), -5 the end of what is in tiered storage (v9).

v1   one offset instead of a list
v2   isolation level, throttle time
v4   leader epochs, in both directions
v6   is the first flexible version
v10  how long a broker may take to ask remote storage
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class ListOffsetsPartition(Message):
    partition_index: int32 = 0
    current_leader_epoch: int32 = since(4, default=-1)
    timestamp: int64 = 0


class ListOffsetsTopic(Message):
    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()


@request(key=2, versions=(1, 10), flexible_from=6)
class ListOffsetsRequest(Request):
    replica_id: int32 = 0
    isolation_level: int8 = since(2)
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int32 = since(10)


class ListOffsetsPartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


@response(to=ListOffsetsRequest)
class ListOffsetsResponse(Response):
    throttle_time_ms: int32 = since(2)
    topics: Sequence[ListOffsetsTopicResponse] = ()

"""OffsetForLeaderEpoch (key 23): where a leader epoch ended. Tells a reader whether its log was cut behind its back.

v2   the leader epoch that the reader knows, which fences it; throttle time
v3   the replica that asks
v4   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class OffsetForLeaderPartition(Message):
    partition: int32 = 0
    current_leader_epoch: int32 = -1
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Message):
    topic: str = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


@request(key=23, versions=(2, 4), flexible_from=4)
class OffsetForLeaderEpochRequest(Request):
    replica_id: int32 = since(3, default=-2)
    topics: Sequence[OffsetForLeaderTopic] = ()


class EpochEndOffset(Message):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Message):
    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()


@response(to=OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()

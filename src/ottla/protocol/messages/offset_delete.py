"""OffsetDelete (key 47): a group forgets offsets. There is no flexible version."""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class OffsetDeleteRequestPartition(Message):
    partition_index: int32 = 0


class OffsetDeleteRequestTopic(Message):
    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


@request(key=47, versions=(0, 0))
class OffsetDeleteRequest(Request):
    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


class OffsetDeleteResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Message):
    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


@response(to=OffsetDeleteRequest)
class OffsetDeleteResponse(Response):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()

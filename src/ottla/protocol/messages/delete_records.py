"""DeleteRecords (key 21): moves the beginning of partitions forward.

v2   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response


class DeleteRecordsPartition(Message):
    partition_index: int32 = 0
    offset: int64 = 0


class DeleteRecordsTopic(Message):
    name: str = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


@request(key=21, versions=(0, 2), flexible_from=2)
class DeleteRecordsRequest(Request):
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: int32 = 0


class DeleteRecordsPartitionResult(Message):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


class DeleteRecordsTopicResult(Message):
    name: str = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


@response(to=DeleteRecordsRequest)
class DeleteRecordsResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()

"""DescribeLogDirs (key 35): how much room the partitions of a broker take.

v2   is the first flexible version
v3   an error code for the whole answer
v4   how large the disk is, and how much of it is free
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class DescribableLogDirTopic(Message):
    topic: str = ""
    partitions: Sequence[int32] = ()


@request(key=35, versions=(1, 4), flexible_from=2)
class DescribeLogDirsRequest(Request):
    topics: Sequence[DescribableLogDirTopic] | None = ()


class DescribeLogDirsPartition(Message):
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    name: str = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


class DescribeLogDirsResult(Message):
    error_code: int16 = 0
    log_dir: str = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: int64 = since(4, default=-1)
    usable_bytes: int64 = since(4, default=-1)


@response(to=DescribeLogDirsRequest)
class DescribeLogDirsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(3)
    results: Sequence[DescribeLogDirsResult] = ()

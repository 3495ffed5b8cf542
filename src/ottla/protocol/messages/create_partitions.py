"""CreatePartitions (key 37): more partitions for topics that exist.

v2   is the first flexible version
v3   may answer THROTTLING_QUOTA_EXCEEDED
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class CreatePartitionsAssignment(Message):
    broker_ids: Sequence[int32] = ()


class CreatePartitionsTopic(Message):
    name: str = ""
    count: int32 = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


@request(key=37, versions=(0, 3), flexible_from=2)
class CreatePartitionsRequest(Request):
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: int32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(Message):
    name: str = ""
    error_code: int16 = 0
    error_message: str | None = None


@response(to=CreatePartitionsRequest)
class CreatePartitionsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[CreatePartitionsTopicResult] = ()

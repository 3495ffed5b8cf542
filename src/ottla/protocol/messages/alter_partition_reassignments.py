"""AlterPartitionReassignments (key 45): moves partitions to other replicas, or stops a move (null).

v1   whether the replication factor may change
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


class ReassignablePartition(Message):
    partition_index: int32 = 0
    replicas: Sequence[int32] | None = None


class ReassignableTopic(Message):
    name: str = ""
    partitions: Sequence[ReassignablePartition] = ()


@request(key=45, versions=(0, 1), flexible_from=0)
class AlterPartitionReassignmentsRequest(Request):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: Sequence[ReassignableTopic] = ()


class ReassignablePartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


class ReassignableTopicResponse(Message):
    name: str = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


@response(to=AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = since(1, default=True)
    error_code: int16 = 0
    error_message: str | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()

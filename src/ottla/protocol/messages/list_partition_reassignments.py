"""ListPartitionReassignments (key 46): the moves of partitions that are under way."""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class ListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: Sequence[int32] = ()


@request(key=46, versions=(0, 0), flexible_from=0)
class ListPartitionReassignmentsRequest(Request):
    timeout_ms: int32 = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Message):
    partition_index: int32 = 0
    replicas: Sequence[int32] = ()
    adding_replicas: Sequence[int32] = ()
    removing_replicas: Sequence[int32] = ()


class OngoingTopicReassignment(Message):
    name: str = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


@response(to=ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()

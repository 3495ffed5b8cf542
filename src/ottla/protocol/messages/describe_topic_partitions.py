"""DescribeTopicPartitions (key 75): topics and their partitions, page by page."""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class TopicRequest(Message):
    name: str = ""


class Cursor(Message):
    topic_name: str = ""
    partition_index: int32 = 0


@request(key=75, versions=(0, 0), flexible_from=0)
class DescribeTopicPartitionsRequest(Request):
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: Sequence[int32] = ()
    isr_nodes: Sequence[int32] = ()
    eligible_leader_replicas: Sequence[int32] | None = None
    last_known_elr: Sequence[int32] | None = None
    offline_replicas: Sequence[int32] = ()


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int16 = 0
    name: str | None = ""
    topic_id: Uuid = NO_UUID
    is_internal: bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: int32 = INT32_MIN


@response(to=DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None

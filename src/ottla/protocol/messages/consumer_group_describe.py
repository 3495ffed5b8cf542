"""ConsumerGroupDescribe (key 69): state and members of groups of the new consumer protocol.

v1   whether a member is of the classic or of the new protocol
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, NO_UUID, Uuid, int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=69, versions=(0, 1), flexible_from=0)
class ConsumerGroupDescribeRequest(Request):
    group_ids: Sequence[str] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Message):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: Sequence[int32] = ()


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = ()


class Member(Message):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = since(0)
    target_assignment: Assignment = since(0)
    member_type: int8 = since(1, default=-1)


class DescribedGroup(Message):
    error_code: int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: str = ""
    members: Sequence[Member] = ()
    authorized_operations: int32 = INT32_MIN


@response(to=ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: int32 = 0
    groups: Sequence[DescribedGroup] = ()

"""ShareGroupDescribe (key 77): state and members of share groups."""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=77, versions=(1, 1), flexible_from=0)
class ShareGroupDescribeRequest(Request):
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
    rack_id: str | None = None
    member_epoch: int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    assignment: Assignment = since(0)


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


@response(to=ShareGroupDescribeRequest)
class ShareGroupDescribeResponse(Response):
    throttle_time_ms: int32 = 0
    groups: Sequence[DescribedGroup] = ()

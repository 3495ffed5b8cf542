"""ShareGroupHeartbeat (key 76): a member of a share group (KIP-932) joins, stays alive and learns its assignment."""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


@request(key=76, versions=(1, 1), flexible_from=0)
class ShareGroupHeartbeatRequest(Request):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: Sequence[str] | None = None


class TopicPartitions(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[int32] = ()


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = ()


@response(to=ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None

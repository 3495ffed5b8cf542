"""ConsumerGroupHeartbeat (key 68): join, subscribe, revoke and stay alive, all in one (the new protocol of KIP-848).

Fields that are null have not changed since the last heartbeat.

v1   subscription by a regular expression that the broker evaluates; the member makes its own id
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


class TopicPartitions(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[int32] = ()


@request(key=68, versions=(0, 1), flexible_from=0)
class ConsumerGroupHeartbeatRequest(Request):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: Sequence[str] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: Sequence[TopicPartitions] | None = None


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = ()


@response(to=ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None

"""JoinGroup (key 11): a member enters a rebalance and waits for its end.

v1   how long the group waits for its members to come back
v2   throttle time
v4   a new member without an id is given one and must join again with it
v5   the static member's instance id
v6   is the first flexible version
v7   the protocol type in the answer
v8   why the member joins
v9   whether the leader may skip the assignment
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, nullable_since, request, response, since


class JoinGroupRequestProtocol(Message):
    name: str = ""
    metadata: bytes = b""


@request(key=11, versions=(0, 9), flexible_from=6)
class JoinGroupRequest(Request):
    group_id: str = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = since(1, default=-1)
    member_id: str = ""
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: str | None = since(8, default=None)


class JoinGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: str | None = since(5, default=None)
    metadata: bytes = b""


@response(to=JoinGroupRequest)
class JoinGroupResponse(Response):
    throttle_time_ms: int32 = since(2)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: str | None = since(7, default=None)
    protocol_name: str | None = nullable_since(7)
    leader: str = ""
    skip_assignment: bool = since(9)
    member_id: str = ""
    members: Sequence[JoinGroupResponseMember] = ()

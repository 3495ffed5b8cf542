"""LeaveGroup (key 13): members leave a group, and its partitions are given to others at once.

v1   throttle time
v3   several members at once, by id or by instance id
v4   is the first flexible version
v5   why they leave
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class MemberIdentity(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = since(5, default=None)


@request(key=13, versions=(0, 5), flexible_from=4)
class LeaveGroupRequest(Request):
    group_id: str = ""
    member_id: str = until(2)
    members: Sequence[MemberIdentity] = since(3)


class MemberResponse(Message):
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int16 = 0


@response(to=LeaveGroupRequest)
class LeaveGroupResponse(Response):
    throttle_time_ms: int32 = since(1)
    error_code: int16 = 0
    members: Sequence[MemberResponse] = since(3)

"""SyncGroup (key 14): the group's leader hands in the assignment, every member gets its share of it.

v1   throttle time
v3   the static member's instance id
v4   is the first flexible version
v5   protocol type and name, in both directions
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


class SyncGroupRequestAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


@request(key=14, versions=(0, 5), flexible_from=4)
class SyncGroupRequest(Request):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None)
    protocol_name: str | None = since(5, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = ()


@response(to=SyncGroupRequest)
class SyncGroupResponse(Response):
    throttle_time_ms: int32 = since(1)
    error_code: int16 = 0
    protocol_type: str | None = since(5, default=None)
    protocol_name: str | None = since(5, default=None)
    assignment: bytes = b""

"""Heartbeat (key 12): a group member says that it is alive.

v1   throttle time
v3   the static member's instance id
v4   is the first flexible version
"""

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Request, Response, request, response, since


@request(key=12, versions=(0, 4), flexible_from=4)
class HeartbeatRequest(Request):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None)


@response(to=HeartbeatRequest)
class HeartbeatResponse(Response):
    throttle_time_ms: int32 = since(1)
    error_code: int16 = 0

"""DescribeGroups (key 15): state, members and assignments of classic groups.

v1   throttle time
v3   operations that the client may do
v4   instance ids of static members
v5   is the first flexible version
v6   an unknown group is an error with a message
"""

from collections.abc import Sequence

from ottla.protocol.primitives import INT32_MIN, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=15, versions=(0, 6), flexible_from=5)
class DescribeGroupsRequest(Request):
    groups: Sequence[str] = ()
    include_authorized_operations: bool = since(3)


class DescribedGroupMember(Message):
    member_id: str = ""
    group_instance_id: str | None = since(4, default=None)
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    error_code: int16 = 0
    error_message: str | None = since(6, default=None)
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: int32 = since(3, default=INT32_MIN)


@response(to=DescribeGroupsRequest)
class DescribeGroupsResponse(Response):
    throttle_time_ms: int32 = since(1)
    groups: Sequence[DescribedGroup] = ()

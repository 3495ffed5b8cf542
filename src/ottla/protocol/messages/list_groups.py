"""ListGroups (key 16): the groups that a broker coordinates.

v1   throttle time
v3   is the first flexible version
v4   states: as a filter and in the answer
v5   group types: as a filter and in the answer
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=16, versions=(0, 5), flexible_from=3)
class ListGroupsRequest(Request):
    states_filter: Sequence[str] = since(4)
    types_filter: Sequence[str] = since(5)


class ListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = since(4)
    group_type: str = since(5)


@response(to=ListGroupsRequest)
class ListGroupsResponse(Response):
    throttle_time_ms: int32 = since(1)
    error_code: int16 = 0
    groups: Sequence[ListedGroup] = ()

"""DeleteGroups (key 42): removes groups without members, and their offsets.

v2   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


@request(key=42, versions=(0, 2), flexible_from=2)
class DeleteGroupsRequest(Request):
    groups_names: Sequence[str] = ()


class DeletableGroupResult(Message):
    group_id: str = ""
    error_code: int16 = 0


@response(to=DeleteGroupsRequest)
class DeleteGroupsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[DeletableGroupResult] = ()

"""CreateAcls (key 30): new access rules.

v1   pattern types (literal, prefixed)
v2   is the first flexible version
v3   rules for users as resources
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class AclCreation(Message):
    resource_type: int8 = 0
    resource_name: str = ""
    resource_pattern_type: int8 = 3
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


@request(key=30, versions=(1, 3), flexible_from=2)
class CreateAclsRequest(Request):
    creations: Sequence[AclCreation] = ()


class AclCreationResult(Message):
    error_code: int16 = 0
    error_message: str | None = ""


@response(to=CreateAclsRequest)
class CreateAclsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[AclCreationResult] = ()

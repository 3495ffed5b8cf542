"""DescribeAcls (key 29): the access rules that match a filter.

v1   pattern types (literal, prefixed)
v2   is the first flexible version
v3   rules for users as resources
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


@request(key=29, versions=(1, 3), flexible_from=2)
class DescribeAclsRequest(Request):
    resource_type_filter: int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


class AclDescription(Message):
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Message):
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: int8 = 3
    acls: Sequence[AclDescription] = ()


@response(to=DescribeAclsRequest)
class DescribeAclsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    resources: Sequence[DescribeAclsResource] = ()

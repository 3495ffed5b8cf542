"""AlterConfigs (key 33): replaces all settings of a resource. IncrementalAlterConfigs is what clients use today.

v2   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class AlterableConfig(Message):
    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


@request(key=33, versions=(0, 2), flexible_from=2)
class AlterConfigsRequest(Request):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(Message):
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""


@response(to=AlterConfigsRequest)
class AlterConfigsResponse(Response):
    throttle_time_ms: int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()

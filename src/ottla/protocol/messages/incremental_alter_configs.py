"""IncrementalAlterConfigs (key 44): sets, removes, or adds to and takes from single settings of a resource.

v1   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class AlterableConfig(Message):
    name: str = ""
    config_operation: int8 = 0
    value: str | None = ""


class AlterConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


@request(key=44, versions=(0, 1), flexible_from=1)
class IncrementalAlterConfigsRequest(Request):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


class AlterConfigsResourceResponse(Message):
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""


@response(to=IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()

"""DescribeConfigs (key 32): the settings of topics and brokers, and where each value comes from.

v1   the source of a value, and its synonyms
v3   types and documentation
v4   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


class DescribeConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: str = ""
    configuration_keys: Sequence[str] | None = ()


@request(key=32, versions=(1, 4), flexible_from=4)
class DescribeConfigsRequest(Request):
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: bool = False
    include_documentation: bool = since(3)


class DescribeConfigsSynonym(Message):
    name: str = ""
    value: str | None = ""
    source: int8 = 0


class DescribeConfigsResourceResult(Message):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int8 = -1
    is_sensitive: bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: int8 = since(3)
    documentation: str | None = since(3)


class DescribeConfigsResult(Message):
    error_code: int16 = 0
    error_message: str | None = ""
    resource_type: int8 = 0
    resource_name: str = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


@response(to=DescribeConfigsRequest)
class DescribeConfigsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[DescribeConfigsResult] = ()

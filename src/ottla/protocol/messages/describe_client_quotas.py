"""DescribeClientQuotas (key 48): the quotas of users, clients and addresses.

v1   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class ComponentData(Message):
    entity_type: str = ""
    match_type: int8 = 0
    match: str | None = ""


@request(key=48, versions=(0, 1), flexible_from=1)
class DescribeClientQuotasRequest(Request):
    components: Sequence[ComponentData] = ()
    strict: bool = False


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Message):
    key: str = ""
    value: float = 0.0


class EntryData(Message):
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()


@response(to=DescribeClientQuotasRequest)
class DescribeClientQuotasResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    entries: Sequence[EntryData] | None = ()

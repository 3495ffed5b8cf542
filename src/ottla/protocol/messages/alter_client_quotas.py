"""AlterClientQuotas (key 49): sets and removes quotas of users, clients and addresses.

v1   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class EntityData(Message):
    entity_type: str = ""
    entity_name: str | None = ""


class OpData(Message):
    key: str = ""
    value: float = 0.0
    remove: bool = False


class RequestEntryData(Message):
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()


@request(key=49, versions=(0, 1), flexible_from=1)
class AlterClientQuotasRequest(Request):
    entries: Sequence[RequestEntryData] = ()
    validate_only: bool = False


class ResponseEntryData(Message):
    error_code: int16 = 0
    error_message: str | None = ""
    entity: Sequence[EntityData] = ()


@response(to=AlterClientQuotasRequest)
class AlterClientQuotasResponse(Response):
    throttle_time_ms: int32 = 0
    entries: Sequence[ResponseEntryData] = ()

"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

v1   the kind of key (0 group, 1 transaction, 2 share), throttle time, an error message
v3   is the first flexible version
v4   several keys at once
v5   may answer TRANSACTION_ABORTABLE
v6   share groups
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


@request(key=10, versions=(0, 6), flexible_from=3)
class FindCoordinatorRequest(Request):
    key: str = until(3)
    key_type: int8 = since(1)
    coordinator_keys: Sequence[str] = since(4)


class Coordinator(Message):
    key: str = ""
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


@response(to=FindCoordinatorRequest)
class FindCoordinatorResponse(Response):
    throttle_time_ms: int32 = since(1)
    error_code: int16 = until(3)
    error_message: str | None = since(1, until=3)
    node_id: int32 = until(3)
    host: str = until(3)
    port: int32 = until(3)
    coordinators: Sequence[Coordinator] = since(4)

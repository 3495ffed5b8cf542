"""UnregisterBroker (key 64): the controller forgets a broker that will not come back."""

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Request, Response, request, response


@request(key=64, versions=(0, 0), flexible_from=0)
class UnregisterBrokerRequest(Request):
    broker_id: int32 = 0


@response(to=UnregisterBrokerRequest)
class UnregisterBrokerResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""

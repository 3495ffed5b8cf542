"""SaslAuthenticate (key 36): one step of a SASL exchange.

v1   how long the session is valid
v2   is the first flexible version
"""

from ottla.protocol.primitives import int16, int64
from ottla.protocol.schema import Request, Response, request, response, since


@request(key=36, versions=(0, 2), flexible_from=2)
class SaslAuthenticateRequest(Request):
    auth_bytes: bytes = b""


@response(to=SaslAuthenticateRequest)
class SaslAuthenticateResponse(Response):
    error_code: int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int64 = since(1)

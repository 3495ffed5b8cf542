"""SaslHandshake (key 17): the client names the SASL mechanism that it wants to use.

v1   what follows are SaslAuthenticate requests instead of raw tokens
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16
from ottla.protocol.schema import Request, Response, request, response


@request(key=17, versions=(0, 1))
class SaslHandshakeRequest(Request):
    mechanism: str = ""


@response(to=SaslHandshakeRequest)
class SaslHandshakeResponse(Response):
    error_code: int16 = 0
    mechanisms: Sequence[str] = ()

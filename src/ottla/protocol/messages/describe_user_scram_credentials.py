"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials; the secrets stay here."""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class UserName(Message):
    name: str = ""


@request(key=50, versions=(0, 0), flexible_from=0)
class DescribeUserScramCredentialsRequest(Request):
    users: Sequence[UserName] | None = ()


class CredentialInfo(Message):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


@response(to=DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()

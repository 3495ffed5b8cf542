"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials."""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class ScramCredentialDeletion(Message):
    name: str = ""
    mechanism: int8 = 0


class ScramCredentialUpsertion(Message):
    name: str = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


@request(key=51, versions=(0, 0), flexible_from=0)
class AlterUserScramCredentialsRequest(Request):
    deletions: Sequence[ScramCredentialDeletion] = ()
    upsertions: Sequence[ScramCredentialUpsertion] = ()


class AlterUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = ""


@response(to=AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[AlterUserScramCredentialsResult] = ()

"""AddRaftVoter (key 80): a new voter for the metadata quorum.

v1   whether to answer when the change is committed, or at once
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since


class Listener(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0


@request(key=80, versions=(0, 1), flexible_from=0)
class AddRaftVoterRequest(Request):
    cluster_id: str | None = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: Uuid = NO_UUID
    listeners: Sequence[Listener] = ()
    ack_when_committed: bool = since(1, default=True)


@response(to=AddRaftVoterRequest)
class AddRaftVoterResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""

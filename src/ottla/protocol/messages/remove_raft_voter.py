"""RemoveRaftVoter (key 81): a voter of the metadata quorum less."""

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Request, Response, request, response


@request(key=81, versions=(0, 0), flexible_from=0)
class RemoveRaftVoterRequest(Request):
    cluster_id: str | None = ""
    voter_id: int32 = 0
    voter_directory_id: Uuid = NO_UUID


@response(to=RemoveRaftVoterRequest)
class RemoveRaftVoterResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""

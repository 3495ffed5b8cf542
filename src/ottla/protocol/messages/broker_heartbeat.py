"""BrokerHeartbeat (key 63): a broker tells the controller that it is alive and how far it has read the metadata.

v1   log directories that are offline
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Uuid, int16, int32, int64
from ottla.protocol.schema import Request, Response, request, response, tagged


@request(key=63, versions=(0, 1), flexible_from=0)
class BrokerHeartbeatRequest(Request):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Sequence[Uuid] = tagged(0, since=1)


@response(to=BrokerHeartbeatRequest)
class BrokerHeartbeatResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False

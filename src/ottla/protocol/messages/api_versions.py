"""ApiVersions (key 18): which APIs a broker serves, in which versions. The first thing that a client asks.

The header of the answer never changes, since the client does not know yet what the broker speaks.

v1   throttle time
v3   is the first flexible version; the client says what it is, the broker which features it has
v4   a feature's lowest version may be 0
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged


@request(key=18, versions=(0, 4), flexible_from=3)
class ApiVersionsRequest(Request):
    client_software_name: str = since(3)
    client_software_version: str = since(3)


class ApiVersion(Message):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Message):
    name: str = ""
    min_version: int16 = 0
    max_version: int16 = 0


class FinalizedFeatureKey(Message):
    name: str = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0


@response(to=ApiVersionsRequest)
class ApiVersionsResponse(Response):
    error_code: int16 = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: int32 = since(1)
    supported_features: Sequence[SupportedFeatureKey] = tagged(0, since=3)
    finalized_features_epoch: int64 = tagged(1, since=3, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = tagged(2, since=3)
    zk_migration_ready: bool = tagged(3, since=3)

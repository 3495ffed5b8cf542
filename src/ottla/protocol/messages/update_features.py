"""UpdateFeatures (key 57): raises or lowers the finalized version of features.

v1   the kind of change, and the choice to validate only
v2   the answer has no results per feature
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class FeatureUpdateKey(Message):
    feature: str = ""
    max_version_level: int16 = 0
    allow_downgrade: bool = until(0)
    upgrade_type: int8 = since(1, default=1)


@request(key=57, versions=(0, 2), flexible_from=0)
class UpdateFeaturesRequest(Request):
    timeout_ms: int32 = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: bool = since(1)


class UpdatableFeatureResult(Message):
    feature: str = ""
    error_code: int16 = 0
    error_message: str | None = ""


@response(to=UpdateFeaturesRequest)
class UpdateFeaturesResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: Sequence[UpdatableFeatureResult] = until(1)

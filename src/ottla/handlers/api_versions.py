"""ApiVersions: what this node serves, straight from the registry."""

from ottla.handlers.registry import apis, handles
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.services import RequestContext


@handles(ApiVersionsRequest)
def api_versions(request: ApiVersionsRequest, ctx: RequestContext) -> ApiVersionsResponse:
    features = ctx.image.features
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1])
            for _, api in sorted(apis().items())
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(features.supported.items())
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.finalized.items())
            if level > 0
        ],
    )

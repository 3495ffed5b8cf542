"""UpdateFeatures: the levels that the cluster as a whole uses."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.services import Deferred, RequestContext


@handles(UpdateFeaturesRequest, controller=True)
def update_features(request: UpdateFeaturesRequest, ctx: RequestContext) -> Deferred[UpdateFeaturesResponse]:
    return ask_controller(
        ctx, lambda controller: controller.update_features(request), lambda error: _refused(request, error)
    )


def _refused(request: UpdateFeaturesRequest, error: BrokerError) -> UpdateFeaturesResponse:
    """Nothing of the request is done; before version 2 each feature says so."""
    return UpdateFeaturesResponse(
        error_code=error.code,
        error_message=str(error),
        results=[
            UpdatableFeatureResult(feature=update.feature, error_code=error.code, error_message=str(error))
            for update in request.feature_updates
        ],
    )

"""IncrementalAlterConfigs: set, remove, append to or subtract from single configs."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.services import Deferred, RequestContext


@handles(IncrementalAlterConfigsRequest, controller=True)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext
) -> Deferred[IncrementalAlterConfigsResponse]:
    return ask_controller(
        ctx, lambda controller: controller.incremental_alter_configs(request), lambda error: _refused(request, error)
    )


def _refused(request: IncrementalAlterConfigsRequest, error: BrokerError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=str(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )

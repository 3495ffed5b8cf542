"""AlterConfigs: all configs of a resource at once; what is not named goes back to its default."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.services import Deferred, RequestContext


@handles(AlterConfigsRequest, controller=True)
def alter_configs(request: AlterConfigsRequest, ctx: RequestContext) -> Deferred[AlterConfigsResponse]:
    return ask_controller(
        ctx, lambda controller: controller.alter_configs(request), lambda error: _refused(request, error)
    )


def _refused(request: AlterConfigsRequest, error: BrokerError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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

"""CreatePartitions: more partitions for topics that exist."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.services import Deferred, RequestContext


@handles(CreatePartitionsRequest, controller=True)
def create_partitions(request: CreatePartitionsRequest, ctx: RequestContext) -> Deferred[CreatePartitionsResponse]:
    return ask_controller(
        ctx, lambda controller: controller.create_partitions(request), lambda error: _refused(request, error)
    )


def _refused(request: CreatePartitionsRequest, error: BrokerError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            for topic in request.topics
        ]
    )

"""CreateTopics: new topics, each with an answer of its own."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.services import AUTOMATIC, Deferred, RequestContext


@handles(CreateTopicsRequest, controller=True)
def create_topics(request: CreateTopicsRequest, ctx: RequestContext) -> Deferred[CreateTopicsResponse]:
    automatic = ctx.client_id == AUTOMATIC
    return ask_controller(
        ctx,
        lambda controller: controller.create_topics(request, automatic=automatic),
        lambda error: _refused(request, error),
    )


def _refused(request: CreateTopicsRequest, error: BrokerError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error), configs=())
            for topic in request.topics
        ]
    )

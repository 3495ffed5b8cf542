"""DeleteTopics: topics by name or, from version 6 on, by id."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.services import Deferred, RequestContext


@handles(DeleteTopicsRequest, controller=True)
def delete_topics(request: DeleteTopicsRequest, ctx: RequestContext) -> Deferred[DeleteTopicsResponse]:
    return ask_controller(
        ctx, lambda controller: controller.delete_topics(request), lambda error: _refused(request, error)
    )


def _refused(request: DeleteTopicsRequest, error: BrokerError) -> DeleteTopicsResponse:
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=str(error)
            )
            for topic in wanted
        ]
    )

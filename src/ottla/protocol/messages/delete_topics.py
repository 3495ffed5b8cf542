"""DeleteTopics (key 20): topics and all that is in them go away.

v1   throttle time
v4   is the first flexible version
v5   an error message per topic
v6   topics by name or by id
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32
from ottla.protocol.schema import Message, Request, Response, nullable_since, request, response, since, until


class DeleteTopicState(Message):
    name: str | None = None
    topic_id: Uuid = NO_UUID


@request(key=20, versions=(1, 6), flexible_from=4)
class DeleteTopicsRequest(Request):
    topics: Sequence[DeleteTopicState] = since(6)
    topic_names: Sequence[str] = until(5)
    timeout_ms: int32 = 0


class DeletableTopicResult(Message):
    name: str | None = nullable_since(6)
    topic_id: Uuid = since(6)
    error_code: int16 = 0
    error_message: str | None = since(5, default=None)


@response(to=DeleteTopicsRequest)
class DeleteTopicsResponse(Response):
    throttle_time_ms: int32 = 0
    responses: Sequence[DeletableTopicResult] = ()

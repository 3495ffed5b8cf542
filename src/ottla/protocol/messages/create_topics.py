"""CreateTopics (key 19): new topics, with their partitions, replicas and settings.

v2   throttle time
v4   partitions and replication factor may be left to the broker (-1)
v5   is the first flexible version; the answer has the topic as it was created
v6   may answer THROTTLING_QUOTA_EXCEEDED
v7   topic ids in the answer
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Uuid, int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged


class CreatableReplicaAssignment(Message):
    partition_index: int32 = 0
    broker_ids: Sequence[int32] = ()


class CreatableTopicConfig(Message):
    name: str = ""
    value: str | None = ""


class CreatableTopic(Message):
    name: str = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


@request(key=19, versions=(2, 7), flexible_from=5)
class CreateTopicsRequest(Request):
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int32 = 60000
    validate_only: bool = False


class CreatableTopicConfigs(Message):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Message):
    name: str = ""
    topic_id: Uuid = since(7)
    error_code: int16 = 0
    error_message: str | None = ""
    topic_config_error_code: int16 = tagged(0, since=5)
    num_partitions: int32 = since(5, default=-1)
    replication_factor: int16 = since(5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = since(5)


@response(to=CreateTopicsRequest)
class CreateTopicsResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[CreatableTopicResult] = ()

"""AlterPartition (key 56): a leader asks the controller to change the in-sync replicas.

v2   topics by id
v3   broker epochs of the new in-sync replicas, so that a restarted one is not let in by mistake
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class BrokerState(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


class RequestPartitionData(Message):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: Sequence[int32] = until(2)
    new_isr_with_epochs: Sequence[BrokerState] = since(3)
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class RequestTopicData(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[RequestPartitionData] = ()


@request(key=56, versions=(2, 3), flexible_from=0)
class AlterPartitionRequest(Request):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: Sequence[RequestTopicData] = ()


class ResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: Sequence[int32] = ()
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class ResponseTopicData(Message):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[ResponsePartitionData] = ()


@response(to=AlterPartitionRequest)
class AlterPartitionResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: Sequence[ResponseTopicData] = ()

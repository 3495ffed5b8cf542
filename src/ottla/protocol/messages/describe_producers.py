"""DescribeProducers (key 61): the producers that a partition knows, for hunting hanging transactions."""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response


class TopicRequest(Message):
    name: str = ""
    partition_indexes: Sequence[int32] = ()


@request(key=61, versions=(0, 0), flexible_from=0)
class DescribeProducersRequest(Request):
    topics: Sequence[TopicRequest] = ()


class ProducerState(Message):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()


class TopicResponse(Message):
    name: str = ""
    partitions: Sequence[PartitionResponse] = ()


@response(to=DescribeProducersRequest)
class DescribeProducersResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[TopicResponse] = ()

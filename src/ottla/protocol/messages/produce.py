"""Produce (key 0): a client appends record batches to partitions.

Versions 0 to 2 carry record formats that we refuse, but they are advertised: librdkafka switches compression off for
a broker whose range does not begin at 0.

v3   the transactional id, and record format 2
v5   the answer has the log start offset
v7   zstd may be used
v8   the answer says which records were bad, and why
v9   is the first flexible version
v10  the answer names the new leader where the partition has moved
v11  the answer may be TRANSACTION_ABORTABLE
v12  within a transaction (version 2), adds the partition to it as well
v13  topics by id instead of by name
"""

from collections.abc import Sequence

from ottla.protocol.primitives import Records, Uuid, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, tagged, until

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1
BY_TOPIC_ID_FROM = 13


class PartitionProduceData(Message):
    index: int32 = 0
    records: Records | None = None


class TopicProduceData(Message):
    name: str = until(12)
    topic_id: Uuid = since(13)
    partition_data: Sequence[PartitionProduceData] = ()


@request(key=0, versions=(3, 13), flexible_from=9, advertised_from=0)
class ProduceRequest(Request):
    transactional_id: str | None = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: Sequence[TopicProduceData] = ()


class BatchIndexAndErrorMessage(Message):
    batch_index: int32 = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Message):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Message):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = -1
    log_start_offset: int64 = since(5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = since(8)
    error_message: str | None = since(8, default=None)
    current_leader: LeaderIdAndEpoch = tagged(0, since=10)


class TopicProduceResponse(Message):
    name: str = until(12)
    topic_id: Uuid = since(13)
    partition_responses: Sequence[PartitionProduceResponse] = ()


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None


@response(to=ProduceRequest)
class ProduceResponse(Response):
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: int32 = 0
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=10)

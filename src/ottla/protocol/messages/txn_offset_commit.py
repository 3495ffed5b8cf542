"""TxnOffsetCommit (key 28): offsets that count only if the transaction commits.

v2   leader epochs
v3   is the first flexible version; the member, which fences a zombie
v4   may answer TRANSACTION_ABORTABLE
v5   also adds the offsets to the transaction (transactions version 2)
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = since(2, default=-1)
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: Sequence[TxnOffsetCommitRequestPartition] = ()


@request(key=28, versions=(0, 5), flexible_from=3)
class TxnOffsetCommitRequest(Request):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: int32 = since(3, default=-1)
    member_id: str = since(3)
    group_instance_id: str | None = since(3, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = ()


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: Sequence[TxnOffsetCommitResponsePartition] = ()


@response(to=TxnOffsetCommitRequest)
class TxnOffsetCommitResponse(Response):
    throttle_time_ms: int32 = 0
    topics: Sequence[TxnOffsetCommitResponseTopic] = ()

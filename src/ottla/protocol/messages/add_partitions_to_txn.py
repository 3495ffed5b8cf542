"""AddPartitionsToTxn (key 24): partitions join a transaction before they are written to.

Up to v3 it comes from clients, with one transaction; from v4 on from brokers, with several.

v2   may answer PRODUCER_FENCED
v3   is the first flexible version
v4   several transactions, and the choice to verify only
v5   may answer TRANSACTION_ABORTABLE
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since, until


class AddPartitionsToTxnTopic(Message):
    name: str = ""
    partitions: Sequence[int32] = ()


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    verify_only: bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()


@request(key=24, versions=(0, 5), flexible_from=3)
class AddPartitionsToTxnRequest(Request):
    transactions: Sequence[AddPartitionsToTxnTransaction] = since(4)
    v3_and_below_transactional_id: str = until(3)
    v3_and_below_producer_id: int64 = until(3)
    v3_and_below_producer_epoch: int16 = until(3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = until(3)


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int32 = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Message):
    name: str = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


class AddPartitionsToTxnResult(Message):
    transactional_id: str = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


@response(to=AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(4)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = since(4)
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = until(3)

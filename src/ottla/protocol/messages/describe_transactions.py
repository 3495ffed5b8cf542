"""DescribeTransactions (key 65): the state of transactional ids, as their coordinator sees it."""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response


@request(key=65, versions=(0, 0), flexible_from=0)
class DescribeTransactionsRequest(Request):
    transactional_ids: Sequence[str] = ()


class TopicData(Message):
    topic: str = ""
    partitions: Sequence[int32] = ()


class TransactionState(Message):
    error_code: int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: Sequence[TopicData] = ()


@response(to=DescribeTransactionsRequest)
class DescribeTransactionsResponse(Response):
    throttle_time_ms: int32 = 0
    transaction_states: Sequence[TransactionState] = ()

"""ListTransactions (key 66): the transactional ids of a coordinator, by filter.

v1   transactions that have been open longer than a duration
v2   a pattern for transactional ids
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


@request(key=66, versions=(0, 2), flexible_from=0)
class ListTransactionsRequest(Request):
    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int64] = ()
    duration_filter: int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


class TransactionState(Message):
    transactional_id: str = ""
    producer_id: int64 = 0
    transaction_state: str = ""


@response(to=ListTransactionsRequest)
class ListTransactionsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: Sequence[str] = ()
    transaction_states: Sequence[TransactionState] = ()

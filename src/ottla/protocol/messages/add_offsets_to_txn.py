"""AddOffsetsToTxn (key 25): a group's offsets join a transaction.

v2   may answer PRODUCER_FENCED
v3   is the first flexible version
v4   may answer TRANSACTION_ABORTABLE
"""

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Request, Response, request, response


@request(key=25, versions=(0, 4), flexible_from=3)
class AddOffsetsToTxnRequest(Request):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: str = ""


@response(to=AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0

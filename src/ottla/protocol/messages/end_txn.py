"""EndTxn (key 26): commit or abort.

v2   may answer PRODUCER_FENCED
v3   is the first flexible version
v4   may answer TRANSACTION_ABORTABLE
v5   every transaction raises the producer's epoch, and the answer says which it is now
"""

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Request, Response, request, response, since


@request(key=26, versions=(0, 5), flexible_from=3)
class EndTxnRequest(Request):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False


@response(to=EndTxnRequest)
class EndTxnResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = since(5, default=-1)
    producer_epoch: int16 = since(5, default=-1)

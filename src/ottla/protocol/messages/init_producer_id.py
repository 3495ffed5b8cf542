"""InitProducerId (key 22): a producer gets its id and epoch, and fences an older instance of itself.

v2   is the first flexible version
v3   the id and epoch that the producer had, if it asks for a new epoch
v4   may answer PRODUCER_FENCED
v5   may answer TRANSACTION_ABORTABLE
v6   two-phase commit: an open transaction may be kept (not yet stable in Kafka)
"""

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Request, Response, request, response, since


@request(key=22, versions=(0, 6), flexible_from=2)
class InitProducerIdRequest(Request):
    transactional_id: str | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: int64 = since(3, default=-1)
    producer_epoch: int16 = since(3, default=-1)
    enable2_pc: bool = since(6)
    keep_prepared_txn: bool = since(6)


@response(to=InitProducerIdRequest)
class InitProducerIdResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: int16 = since(6, default=-1)

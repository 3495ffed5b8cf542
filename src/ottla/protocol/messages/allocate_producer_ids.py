"""AllocateProducerIds (key 67): a broker gets a block of producer ids from the controller."""

from ottla.protocol.primitives import int16, int32, int64
from ottla.protocol.schema import Request, Response, request, response


@request(key=67, versions=(0, 0), flexible_from=0)
class AllocateProducerIdsRequest(Request):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


@response(to=AllocateProducerIdsRequest)
class AllocateProducerIdsResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0

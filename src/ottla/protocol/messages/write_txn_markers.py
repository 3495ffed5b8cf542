"""WriteTxnMarkers (key 27): the coordinator tells partition leaders how a transaction ended. Between brokers.

v1   is the first flexible version
v2   which version of transactions the marker belongs to
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32, int64
from ottla.protocol.schema import Message, Request, Response, request, response, since


class WritableTxnMarkerTopic(Message):
    name: str = ""
    partition_indexes: Sequence[int32] = ()


class WritableTxnMarker(Message):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: int32 = 0
    transaction_version: int8 = since(2)


@request(key=27, versions=(1, 2), flexible_from=1)
class WriteTxnMarkersRequest(Request):
    markers: Sequence[WritableTxnMarker] = ()


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Message):
    name: str = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


class WritableTxnMarkerResult(Message):
    producer_id: int64 = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


@response(to=WriteTxnMarkersRequest)
class WriteTxnMarkersResponse(Response):
    markers: Sequence[WritableTxnMarkerResult] = ()

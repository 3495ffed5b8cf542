"""WriteTxnMarkers: a transaction coordinator, or an administrator, ends transactions in partitions of this node."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.services import Deferred, RequestContext, gather
from ottla.transactions.markers import Marker
from ottla.transactions.transaction import Producer
from ottla.types import TopicPartition


@handles(WriteTxnMarkersRequest)
def write_txn_markers(request: WriteTxnMarkersRequest, ctx: RequestContext) -> Deferred[WriteTxnMarkersResponse]:
    return gather(
        [_write(wanted, ctx) for wanted in request.markers],
        lambda results: WriteTxnMarkersResponse(
            markers=[result for result in results if not isinstance(result, BrokerError)]
        ),
    )


def _write(wanted: WritableTxnMarker, ctx: RequestContext) -> Deferred[WritableTxnMarkerResult]:
    marker = Marker(
        Producer(wanted.producer_id, wanted.producer_epoch),
        wanted.transaction_result,
        wanted.coordinator_epoch,
        wanted.transaction_version,
    )
    places = [TopicPartition(topic.name, index) for topic in wanted.topics for index in topic.partition_indexes]
    return gather(
        [ctx.services.transactions.write_marker(at, marker) for at in places],
        lambda codes: _result(wanted, places, codes),
    )


def _result(
    wanted: WritableTxnMarker, places: Sequence[TopicPartition], codes: Sequence[ErrorCode | BrokerError]
) -> WritableTxnMarkerResult:
    by_place = {
        at: code.code if isinstance(code, BrokerError) else code for at, code in zip(places, codes, strict=True)
    }
    return WritableTxnMarkerResult(
        producer_id=wanted.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=by_place[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted.topics
        ],
    )

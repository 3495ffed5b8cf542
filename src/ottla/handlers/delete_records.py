"""DeleteRecords: forget what lies before an offset."""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.services import Deferred, RequestContext

UPTO_HIGH_WATERMARK = -1


@handles(DeleteRecordsRequest)
def delete_records(request: DeleteRecordsRequest, ctx: RequestContext) -> Deferred[DeleteRecordsResponse]:
    return ctx.services.committer.after_commit(
        DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[_delete(topic.name, wanted, ctx) for wanted in topic.partitions]
                )
                for topic in request.topics
            ]
        )
    )


def _delete(topic: str, wanted: DeleteRecordsPartition, ctx: RequestContext) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        partition = ctx.services.partitions.get(topic, index)
        offset = partition.high_watermark if wanted.offset == UPTO_HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        low_watermark = ctx.services.committer.delete_records_before(partition, offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=ErrorCode.NONE)

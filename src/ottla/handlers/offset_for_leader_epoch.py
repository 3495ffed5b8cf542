"""OffsetForLeaderEpoch: where an epoch ended, so that a reader can tell whether its position was truncated away."""

from ottla.errors import BrokerError
from ottla.handlers.registry import handles
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.services import RequestContext


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, ctx: RequestContext) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(topic.topic, wanted, ctx) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(topic: str, wanted: OffsetForLeaderPartition, ctx: RequestContext) -> EpochEndOffset:
    try:
        partition = ctx.services.partitions.get(topic, wanted.partition)
        partition.check_epoch(wanted.current_leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code, leader_epoch=-1, end_offset=-1)
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)

"""ListOffsets: which offset goes with a time, or with one of the special times."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.fetch import READ_COMMITTED
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import Partition
from ottla.services import RequestContext

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
UNKNOWN = -1
MAY_WAIT_FROM = 5
"""Clients of these versions know that a new leader may not know yet how far its predecessor had committed."""


@handles(ListOffsetsRequest)
def list_offsets(request: ListOffsetsRequest, ctx: RequestContext) -> ListOffsetsResponse:
    read_committed = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(topic.name, wanted, read_committed, ctx) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    topic: str, wanted: ListOffsetsPartition, read_committed: bool, ctx: RequestContext
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        partition = ctx.services.partitions.get(topic, index)
        partition.check_epoch(wanted.current_leader_epoch)
        if wanted.timestamp == LATEST and not partition.is_settled:
            raise BrokerError(
                ErrorCode.OFFSET_NOT_AVAILABLE if ctx.api_version >= MAY_WAIT_FROM else ErrorCode.LEADER_NOT_AVAILABLE
            )
        timestamp_ms, offset, leader_epoch = find_offset(partition, wanted.timestamp, read_committed)
    except BrokerError as error:
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=error.code, timestamp=UNKNOWN, offset=UNKNOWN
        )
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp_ms, offset=offset, leader_epoch=leader_epoch
    )


def find_offset(partition: Partition, timestamp: int, read_committed: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); -1 where there is no such record."""
    log = partition.log
    upto = partition.last_stable_offset if read_committed else partition.high_watermark
    if timestamp == LATEST:
        return UNKNOWN, upto, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return UNKNOWN, log.start_offset, log.leader_epochs.epoch_at(log.start_offset)
    if timestamp == LATEST_TIERED:
        return UNKNOWN, UNKNOWN, UNKNOWN
    if timestamp == EARLIEST_PENDING_UPLOAD or timestamp < EARLIEST_PENDING_UPLOAD:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"there is no special timestamp {timestamp}")
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= upto:
        return UNKNOWN, UNKNOWN, UNKNOWN
    return found

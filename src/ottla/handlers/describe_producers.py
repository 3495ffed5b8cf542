"""DescribeProducers: which idempotent producers a partition remembers."""

from ottla.errors import BrokerError
from ottla.handlers.registry import handles
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.services import RequestContext


@handles(DescribeProducersRequest)
def describe_producers(request: DescribeProducersRequest, ctx: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(topic.name, index, ctx) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, ctx: RequestContext) -> PartitionResponse:
    try:
        partition = ctx.services.partitions.get(topic, index)
    except BrokerError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message or None)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer in partition.log.producers.active()
        ],
    )

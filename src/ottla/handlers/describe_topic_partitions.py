"""DescribeTopicPartitions: topics and their partitions in pieces, so that no answer grows with the cluster.

Topics come in alphabetical order. An answer that is full says where to go on: the cursor of the next request.
"""

from collections.abc import Iterator, Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.operations import TOPIC_OPERATIONS
from ottla.handlers.registry import handles
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import is_valid_topic_name
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.services import RequestContext

PARTITIONS_MAX = 2_000
"""In one answer, whatever the client asks for."""


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext
) -> DescribeTopicPartitionsResponse:
    try:
        names = _names(request, ctx.image)
    except BrokerError as error:
        return DescribeTopicPartitionsResponse(topics=[_unknown(topic.name, error.code) for topic in request.topics])
    return _page(request, ctx.image, names)


def _names(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    wanted = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is None:
        return sorted(wanted or image.topics)
    if cursor.partition_index < 0 or (wanted and cursor.topic_name not in wanted):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the cursor is not at one of the topics that are asked for")
    return sorted(name for name in wanted or image.topics if name >= cursor.topic_name)


def _page(
    request: DescribeTopicPartitionsRequest, image: MetadataImage, names: Sequence[str]
) -> DescribeTopicPartitionsResponse:
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if left == 0:
            return _full(topics, name, 0)
        topic = image.topics.get(name)
        if topic is None:
            topics += [_unknown(name, _reason(name))] if request.topics else []
            continue
        first = _first_partition(request.cursor, name)
        end = min(len(topic.partitions), first + left)
        topics.append(_described(topic, range(first, end), image))
        if end < len(topic.partitions):
            return _full(topics, name, end)
        left -= max(0, end - first)
    return DescribeTopicPartitionsResponse(topics=topics)


def _full(
    topics: Sequence[DescribeTopicPartitionsResponseTopic], next_topic: str, next_partition: int
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=topics, next_cursor=Cursor(topic_name=next_topic, partition_index=next_partition)
    )


def _first_partition(cursor: Cursor | None, name: str) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _reason(name: str) -> ErrorCode:
    known = is_valid_topic_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.INVALID_TOPIC_EXCEPTION


def _unknown(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


def _described(topic: TopicImage, indexes: range, image: MetadataImage) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(index, topic.partitions[index], image) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(index: int, partition: PartitionImage, image: MetadataImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=list(_offline(partition, image)),
    )


def _offline(partition: PartitionImage, image: MetadataImage) -> Iterator[int]:
    for broker_id in partition.replicas:
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            yield broker_id

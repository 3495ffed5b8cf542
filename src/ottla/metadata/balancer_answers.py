"""An image for plans, made of what any client may ask a cluster: so a plan is shown by the code that carries it out."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.errors import ErrorCode
from ottla.metadata.image import (
    BrokerImage,
    ConfigResource,
    Endpoint,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    empty_image,
)
from ottla.metadata.placement import PLACEMENT
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

_Moving = Mapping[tuple[str, int], OngoingPartitionReassignment]


def image_of(
    metadata: MetadataResponse,
    cluster: DescribeClusterResponse,
    reassignments: ListPartitionReassignmentsResponse,
    placements: Mapping[int, str],
) -> MetadataImage:
    """What a plan needs to know. `placements`: what brokers have as `ottla.cluster.placement`, where they have it."""
    moving = {(topic.name, p.partition_index): p for topic in reassignments.topics for p in topic.partitions}
    topics = [_topic(topic, moving) for topic in metadata.topics if topic.error_code == ErrorCode.NONE]
    return replace(
        empty_image({}),
        topics={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
        brokers={broker.broker_id: _broker(broker) for broker in cluster.brokers},
        configs={
            ConfigResource(ResourceType.BROKER, str(broker_id)): {PLACEMENT: placement}
            for broker_id, placement in placements.items()
        },
    )


def _broker(broker: DescribeClusterBroker) -> BrokerImage:
    return BrokerImage(
        broker_id=broker.broker_id,
        broker_epoch=0,
        incarnation_id=bytes(16),
        endpoints=(Endpoint("PLAINTEXT", broker.host, broker.port, 0),),
        rack=broker.rack,
        fenced=broker.is_fenced,
    )


def _topic(topic: MetadataResponseTopic, moving: _Moving) -> TopicImage:
    name = topic.name or ""
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicImage(
        name=name,
        topic_id=topic.topic_id,
        partitions={p.partition_index: _partition(p, moving.get((name, p.partition_index))) for p in partitions},
    )


def _partition(partition: MetadataResponsePartition, moving: OngoingPartitionReassignment | None) -> PartitionImage:
    return PartitionImage(
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        partition_epoch=0,
        adding_replicas=() if moving is None else tuple(moving.adding_replicas),
        removing_replicas=() if moving is None else tuple(moving.removing_replicas),
    )

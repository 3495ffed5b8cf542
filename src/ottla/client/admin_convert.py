"""From confluent-kafka's admin results to the values of `ottla.client.cluster`, and back."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka import admin as raw

from ottla.client.cluster import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    BrokerInfo,
    CommittedOffset,
    ConfigEntry,
    ConfigSource,
    GroupDescription,
    GroupMember,
    GroupSummary,
    NewTopic,
    OffsetAt,
    Offsets,
    PartitionInfo,
    ResourceType,
    TopicDescription,
    TopicSummary,
)
from ottla.types import TopicPartition

RESOURCES = {
    ResourceType.TOPIC: raw.ResourceType.TOPIC,
    ResourceType.BROKER: raw.ResourceType.BROKER,
    ResourceType.GROUP: raw.ResourceType.GROUP,
}

SOURCES = {
    raw.ConfigSource.DYNAMIC_TOPIC_CONFIG: ConfigSource.TOPIC,
    raw.ConfigSource.DYNAMIC_BROKER_CONFIG: ConfigSource.DYNAMIC_BROKER,
    raw.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: ConfigSource.DYNAMIC_DEFAULT,
    raw.ConfigSource.STATIC_BROKER_CONFIG: ConfigSource.STATIC_BROKER,
    raw.ConfigSource.DEFAULT_CONFIG: ConfigSource.DEFAULT,
    raw.ConfigSource.GROUP_CONFIG: ConfigSource.GROUP,
}

GROUP_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}


def broker(node: Any) -> BrokerInfo | None:
    if node is None or node.id < 0:
        return None
    return BrokerInfo(id=node.id, host=node.host, port=node.port, rack=node.rack)


def new_topic(topic: NewTopic) -> Any:
    if topic.replica_assignment:
        return raw.NewTopic(
            topic.name,
            num_partitions=len(topic.replica_assignment),
            replica_assignment=[list(replicas) for replicas in topic.replica_assignment],
            config=dict(topic.config),
        )
    return raw.NewTopic(
        topic.name,
        num_partitions=-1 if topic.partitions is None else topic.partitions,
        replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
        config=dict(topic.config),
    )


def topic_summary(metadata: Any) -> TopicSummary:
    partitions = metadata.partitions.values()
    return TopicSummary(
        name=metadata.topic,
        partitions=len(partitions),
        replication_factor=max((len(partition.replicas) for partition in partitions), default=0),
        internal=metadata.topic.startswith("__"),
    )


def topic_description(description: Any) -> TopicDescription:
    return TopicDescription(
        name=description.name,
        # librdkafka prints ids in plain base64, Kafka's tools in the URL-safe kind.
        topic_id=str(description.topic_id).replace("/", "_").replace("+", "-"),
        internal=description.is_internal,
        partitions=tuple(partition_info(partition) for partition in sorted(description.partitions, key=_by_id)),
    )


def _by_id(partition: Any) -> int:
    return int(partition.id)


def partition_info(partition: Any) -> PartitionInfo:
    leader = broker(partition.leader)
    return PartitionInfo(
        partition=partition.id,
        leader=None if leader is None else leader.id,
        replicas=tuple(node.id for node in partition.replicas),
        isr=tuple(node.id for node in partition.isr),
    )


def config_entry(entry: Any) -> ConfigEntry:
    # confluent-kafka gives the source as a number; its enum has the same ones.
    source = raw.ConfigSource(entry.source) if isinstance(entry.source, int) else entry.source
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=SOURCES.get(source, ConfigSource.UNKNOWN),
        read_only=entry.is_read_only,
        sensitive=entry.is_sensitive,
    )


def config_changes(kind: ResourceType, name: str, values: Mapping[str, str | None]) -> Any:
    entries = [config_change(key, value) for key, value in values.items()]
    return raw.ConfigResource(RESOURCES[kind], name, incremental_configs=entries)


def config_change(name: str, value: str | None) -> Any:
    operation = raw.AlterConfigOpType.DELETE if value is None else raw.AlterConfigOpType.SET
    return raw.ConfigEntry(name, value, incremental_operation=operation)


def group_state(state: Any) -> str:
    return GROUP_STATES.get(getattr(state, "name", ""), "Unknown")


def group_type(kind: Any) -> str:
    return str(getattr(kind, "name", "UNKNOWN")).capitalize()


def group_summary(listing: Any) -> GroupSummary:
    return GroupSummary(
        group_id=listing.group_id,
        state=group_state(getattr(listing, "state", None)),
        type=group_type(getattr(listing, "type", None)),
        simple=listing.is_simple_consumer_group,
    )


def group_description(description: Any) -> GroupDescription:
    return GroupDescription(
        group_id=description.group_id,
        state=group_state(description.state),
        type=group_type(getattr(description, "type", None)),
        simple=description.is_simple_consumer_group,
        assignor=description.partition_assignor,
        coordinator=broker(description.coordinator),
        members=tuple(group_member(member) for member in description.members),
    )


def group_member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        instance_id=member.group_instance_id,
        partitions=tuple(sorted(from_raw(partition) for partition in member.assignment.topic_partitions)),
    )


def committed(partition: Any) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.offset,
        metadata=partition.metadata or "",
        leader_epoch=partition.leader_epoch,
    )


def offset_spec(timestamp: int) -> Any:
    special = {
        EARLIEST: raw.OffsetSpec.earliest,
        LATEST: raw.OffsetSpec.latest,
        MAX_TIMESTAMP: raw.OffsetSpec.max_timestamp,
    }
    return special[timestamp]() if timestamp in special else raw.OffsetSpec.for_timestamp(timestamp)


def offset_at(info: Any) -> OffsetAt:
    return OffsetAt(offset=info.offset, timestamp=info.timestamp, leader_epoch=info.leader_epoch)


def from_raw(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def to_raw(offsets: Offsets) -> list[Any]:
    return [RawPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

"""An image as records: what a snapshot of the metadata log holds.

Replaying them into an empty state gives an image equal to the one they were made of, counters included: epochs and
ids that have been given out are never given out again, whoever has left since.
"""

from collections.abc import Iterator

from ottla.metadata.image import BrokerImage, FeaturesImage, MetadataImage, PartitionImage, QuotaEntity, TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.types import TopicId

NOBODY = -1
"""The id of no broker: where only the number matters."""


def records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    """In an order in which each record finds what it refers to: features, brokers, topics, and what is set for them."""
    yield from _features(image.features)
    yield from _brokers(image)
    for topic in image.topics.values():
        yield from _topic(topic)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for entity, quotas in image.client_quotas.items():
        for key, limit in quotas.items():
            yield ClientQuotaRecord(entity=_entity(entity), key=key, value=limit)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=NOBODY, next_producer_id=image.next_producer_id)


def _features(features: FeaturesImage) -> Iterator[FeatureLevelRecord]:
    """Each record counts as a change, so levels that were changed often are said again: the epoch never goes back."""
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in features.finalized.items()]
    for again in range(features.epoch + 1 - len(records)):
        yield records[again % len(records)]
    yield from records


def _brokers(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Who left with the highest epoch of all is told of by their epoch alone."""
    highest = max((broker.broker_epoch for broker in image.brokers.values()), default=-1)
    if image.next_broker_epoch > highest + 1:
        yield UnregisterBrokerRecord(broker_id=NOBODY, broker_epoch=image.next_broker_epoch - 1)
    for broker in image.brokers.values():
        yield registration_record(broker)


def registration_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """All that is known of a broker."""
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=security)
            for name, host, port, security in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _topic(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in topic.partitions.items():
        yield _partition(topic.topic_id, index, partition)


def _partition(topic_id: TopicId, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _entity(entity: QuotaEntity) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]

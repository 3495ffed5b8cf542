"""Clusters as images, and what followers and brokers do to them between two looks of the balancer."""

from collections.abc import Iterable, Mapping, Sequence

from ottla.config.cluster import Placement
from ottla.metadata import reassignments
from ottla.metadata.balancer import mark
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage, PartitionImage, empty_image
from ottla.metadata.placement import open_brokers, place
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.state import MetadataState
from ottla.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.types import TopicId

PartitionKey = tuple[TopicId, int]


def after(image: MetadataImage, records: Iterable[MetadataRecord | None]) -> MetadataImage:
    """The image once these are written and read back."""
    state = MetadataState(image)
    for record in records:
        if record is not None:
            state.replay(decode_record(*encode_record(record)))
    return state.image


def a_cluster(
    brokers: int, *, racks: Sequence[str | None] = (), hosts: Sequence[str] = (), first: int = 1
) -> MetadataImage:
    """Brokers with ids from `first` on, each on a host of its own unless told otherwise."""
    return with_brokers(empty_image(SUPPORTED_FEATURES), range(first, first + brokers), racks=racks, hosts=hosts)


def with_brokers(
    image: MetadataImage, broker_ids: Iterable[int], *, racks: Sequence[str | None] = (), hosts: Sequence[str] = ()
) -> MetadataImage:
    return after(
        image,
        [
            RegisterBrokerRecord(
                broker_id=broker_id,
                end_points=[BrokerEndpoint(name="PLAINTEXT", host=hosts[at] if hosts else f"h{broker_id}", port=9092)],
                rack=racks[at] if racks else None,
                fenced=False,
            )
            for at, broker_id in enumerate(broker_ids)
        ],
    )


def joining(image: MetadataImage, *broker_ids: int, rack: str | None = None) -> MetadataImage:
    """These have just joined."""
    image = with_brokers(image, broker_ids, racks=[rack] * len(broker_ids))
    return marked(image, Placement.JOINING, *broker_ids)


def marked(image: MetadataImage, placement: Placement, *broker_ids: int) -> MetadataImage:
    return after(image, [mark(broker_id, placement) for broker_id in broker_ids])


def fenced(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    """They are away: out of every in-sync set that has others, and lead nothing."""
    image = after(image, [BrokerRegistrationChangeRecord(broker_id=broker_id, fenced=1) for broker_id in broker_ids])
    records = []
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            isr = [replica for replica in partition.isr if replica not in broker_ids]
            if len(isr) < len(partition.isr):
                leader = partition.leader if partition.leader in isr else (isr or [-1])[0]
                records.append(
                    PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=isr, leader=leader)
                )
    return after(image, records)


def back(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    return after(image, [BrokerRegistrationChangeRecord(broker_id=broker_id, fenced=-1) for broker_id in broker_ids])


def with_topic(image: MetadataImage, name: str, *assignments: Sequence[int]) -> MetadataImage:
    """A topic whose partitions are where they are said to be, all in sync."""
    topic_id = topic_id_of(name)
    partitions = [
        PartitionRecord(
            topic_id=topic_id,
            partition_id=index,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        for index, replicas in enumerate(assignments)
    ]
    return after(image, [TopicRecord(name=name, topic_id=topic_id), *partitions])


def with_topics(image: MetadataImage, *sizes: int, replication_factor: int, start: int = 0) -> MetadataImage:
    """Topics of these numbers of partitions, placed as the controller places them."""
    for number, size in enumerate(sizes):
        placed = place(
            open_brokers(image), partitions=size, replication_factor=replication_factor, start=start + number * 7
        )
        image = with_topic(image, f"t{number}-{len(image.topics)}", *placed)
    return image


def topic_id_of(name: str) -> TopicId:
    return name.encode().rjust(16, b"\x01")[-16:]


def partition_of(image: MetadataImage, name: str, index: int = 0) -> PartitionImage:
    return image.topics[name].partitions[index]


def moving(image: MetadataImage) -> list[PartitionKey]:
    return [
        (topic.topic_id, index)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if reassignments.is_moving(partition)
    ]


def caught_up(image: MetadataImage) -> MetadataImage:
    """Every replica on a broker in service that has a leader to copy from is in sync, and moves that can are done."""
    records = []
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            isr = [b for b in partition.replicas if b in partition.isr or image.brokers[b].is_active]
            if partition.leader >= 0 and len(isr) > len(partition.isr):
                records.append(PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=isr))
    image = after(image, records)
    return after(image, [completed(image, *key) for key in moving(image)])


def completed(image: MetadataImage, topic_id: TopicId, index: int) -> PartitionChangeRecord | None:
    return reassignments.completed(image.brokers, topic_id, index, image.topics_by_id[topic_id].partitions[index])


def carried_out(image: MetadataImage, records: Iterable[MetadataRecord | None]) -> MetadataImage:
    return caught_up(after(image, records))


def replica_counts(image: MetadataImage) -> Mapping[int, int]:
    counts = dict.fromkeys(image.brokers, 0)
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            for broker_id in partition.replicas:
                counts[broker_id] = counts.get(broker_id, 0) + 1
    return counts


def leader_counts(image: MetadataImage) -> Mapping[int, int]:
    counts = dict.fromkeys(image.brokers, 0)
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            counts[partition.leader] = counts.get(partition.leader, 0) + 1
    return counts

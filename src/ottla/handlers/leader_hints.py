"""Who leads a partition that this node does not: told in the refusal, so that a client need not ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
    from ottla.types import TopicId

NO_EPOCH = -1


def leader_of(image: MetadataImage, topic: str, topic_id: TopicId, index: int) -> tuple[int, int]:
    """Its id and epoch; the topic goes by name if it has one, else by id."""
    found = image.topics.get(topic) if topic else image.topics_by_id.get(topic_id)
    partition = None if found is None else found.partitions.get(index)
    return (NO_LEADER, NO_EPOCH) if partition is None else (partition.leader, partition.leader_epoch)


def client_endpoints(image: MetadataImage, broker_ids: Iterable[int]) -> Iterator[tuple[BrokerImage, Endpoint]]:
    for broker_id in broker_ids:
        broker = image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            yield broker, broker.client_endpoint

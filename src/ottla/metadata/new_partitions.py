"""The first record of a partition: who holds it, who leads it."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import MetadataImage
from ottla.protocol.messages.metadata_records import PartitionRecord
from ottla.types import TopicId


def partition_records(
    topic_id: TopicId, assignments: Sequence[tuple[int, ...]], image: MetadataImage, first_partition: int = 0
) -> Iterator[PartitionRecord]:
    """All active replicas of a new partition are in sync, since it is empty, and the first of them leads."""
    active = {broker.broker_id for broker in image.brokers.values() if broker.is_active}
    for partition_id, replicas in enumerate(assignments, first_partition):
        isr = replicas if active.issuperset(replicas) else tuple(broker for broker in replicas if broker in active)
        yield PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
        )


def require_usable(replicas: Sequence[int], image: MetadataImage, expected_count: int | None) -> None:
    """INVALID_REPLICA_ASSIGNMENT says why a partition can't be put on the brokers that a client chose."""
    if not replicas:
        _refuse("The manual partition assignment includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in image.brokers:
            _refuse(f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.")
    if len(set(replicas)) != len(replicas):
        _refuse("The manual partition assignment includes a broker more than once.")
    if expected_count is not None and len(replicas) != expected_count:
        _refuse(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but other "
            f"partitions of the topic have {expected_count} replica(s)."
        )
    if not any(image.brokers[broker_id].is_active for broker_id in replicas):
        _refuse("All brokers of a manual partition assignment are fenced or in controlled shutdown.")


def _refuse(message: str) -> NoReturn:
    raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

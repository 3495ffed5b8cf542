"""Which partitions a broker matters to, kept by broker: what its coming or going changes is found without a search.

Follows the image: `partition_changed` is called for every change, so a look at a broker with 10,000 partitions costs
what its own partitions cost, however many others there are.

A partition with a single replica is a case of its own. Nobody else can lead it, so it stays as it is while its broker
is away: the broker of 10,000 such partitions comes and goes with two records.
"""

from collections import defaultdict
from collections.abc import Iterable, Set

from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.types import TopicId

PartitionKey = tuple[TopicId, int]

_NONE: Set[PartitionKey] = frozenset()


class Holdings:
    __slots__ = ("_held", "_in_sync", "_led", "leaderless", "reassigning")

    def __init__(self, image: MetadataImage) -> None:
        self._held: defaultdict[int, set[PartitionKey]] = defaultdict(set)
        self._in_sync: defaultdict[int, set[PartitionKey]] = defaultdict(set)
        self._led: defaultdict[int, set[PartitionKey]] = defaultdict(set)
        self.leaderless: set[PartitionKey] = set()
        """Partitions that nobody leads."""
        self.reassigning: set[PartitionKey] = set()
        """Partitions that are on their way to other replicas."""
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                self.partition_changed(topic.topic_id, index, None, partition)

    def held_by(self, broker_id: int) -> Set[PartitionKey]:
        """Partitions that have a replica there."""
        return self._held.get(broker_id, _NONE)

    def shared_in_sync_at(self, broker_id: int) -> Set[PartitionKey]:
        """Partitions of several replicas, the one there in sync."""
        return self._in_sync.get(broker_id, _NONE)

    def shared_led_by(self, broker_id: int) -> Set[PartitionKey]:
        """Partitions of several replicas that are led there."""
        return self._led.get(broker_id, _NONE)

    def partition_changed(
        self, topic_id: TopicId, index: int, before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        key = (topic_id, index)
        _move(self._held, key, before.replicas if before else (), after.replicas if after else ())
        _move(self._in_sync, key, _shared_isr(before), _shared_isr(after))
        _move(self._led, key, _shared_leader(before), _shared_leader(after))
        _mark(self.leaderless, key, after is not None and after.leader == NO_LEADER)
        _mark(self.reassigning, key, after is not None and bool(after.adding_replicas or after.removing_replicas))


def _shared_isr(partition: PartitionImage | None) -> tuple[int, ...]:
    return () if partition is None or len(partition.replicas) == 1 else partition.isr


def _shared_leader(partition: PartitionImage | None) -> tuple[int, ...]:
    if partition is None or len(partition.replicas) == 1 or partition.leader == NO_LEADER:
        return ()
    return (partition.leader,)


def _move(
    table: defaultdict[int, set[PartitionKey]], key: PartitionKey, old: Iterable[int], new: Iterable[int]
) -> None:
    if old == new:
        return
    for broker_id in old:
        table[broker_id].discard(key)
    for broker_id in new:
        table[broker_id].add(key)


def _mark(table: set[PartitionKey], key: PartitionKey, is_in: bool) -> None:
    if is_in:
        table.add(key)
    else:
        table.discard(key)

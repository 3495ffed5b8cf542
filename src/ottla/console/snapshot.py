"""The cluster at one moment, as values, and what two moments say about rates. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNow:
    topic: str
    index: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    is_moving: bool
    start: int | None
    """Offsets are None while the leader does not tell them."""
    end: int | None
    sizes: Mapping[int, int]
    """Broker → bytes; of those that answered."""

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def records(self) -> int | None:
        """How many at most: compaction and transactions leave holes."""
        return None if self.start is None or self.end is None else self.end - self.start

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def preferred_leads(self) -> bool:
        return self.leader == self.replicas[0] if self.replicas else False

    @property
    def size_bytes(self) -> int | None:
        """Of one copy: the leader's, if it is known."""
        led = None if self.leader is None else self.sizes.get(self.leader)
        return max(self.sizes.values(), default=None) if led is None else led


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    name: str
    is_internal: bool
    partitions: tuple[PartitionNow, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def under_replicated(self) -> int:
        return sum(each.is_under_replicated for each in self.partitions)

    @property
    def offline(self) -> int:
        return sum(each.leader is None for each in self.partitions)

    @property
    def records(self) -> int | None:
        known = [each.records for each in self.partitions if each.records is not None]
        return sum(known) if known else None

    @property
    def size_bytes(self) -> int | None:
        """On all brokers together."""
        known = [size for each in self.partitions for size in each.sizes.values()]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNow:
    broker_id: int
    host: str
    port: int
    rack: str | None
    state: str
    """in service, fenced, or what the balancer makes of it: draining, joining."""
    role: str
    """controller, voter, observer; empty where the cluster does not tell."""
    held_bytes: int | None
    usable_bytes: int | None
    metadata_lag: int | None


class Quorum(NamedTuple):
    leader: int
    term: int
    high_watermark: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNow:
    at_ms: int
    cluster_id: str
    controller: int | None
    quorum: Quorum | None
    brokers: tuple[BrokerNow, ...]
    topics: tuple[TopicNow, ...]

    def partitions(self) -> Iterator[PartitionNow]:
        for topic in self.topics:
            yield from topic.partitions

    def topic(self, name: str) -> TopicNow | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def racks(self) -> dict[str | None, list[BrokerNow]]:
        found: dict[str | None, list[BrokerNow]] = {}
        for broker in sorted(self.brokers, key=lambda each: (each.rack or "", each.broker_id)):
            found.setdefault(broker.rack, []).append(broker)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What was written between two moments, per second."""

    by_partition: Mapping[TopicPartition, float] = field(default_factory=dict)
    by_broker: Mapping[int, float] = field(default_factory=dict)
    """Records of the partitions that it leads."""
    bytes_by_broker: Mapping[int, float] = field(default_factory=dict)
    """Growth of its logs, copies included; shrinking ones count as nothing."""

    def of_topic(self, topic: TopicNow) -> float | None:
        known = [self.by_partition[each.at] for each in topic.partitions if each.at in self.by_partition]
        return sum(known) if known else None

    @property
    def total(self) -> float | None:
        return sum(self.by_partition.values()) if self.by_partition else None


def rates_between(before: ClusterNow, now: ClusterNow) -> Rates:
    seconds = (now.at_ms - before.at_ms) / 1000
    if seconds <= 0:
        return Rates()
    ends = {each.at: each.end for each in before.partitions()}
    by_partition: dict[TopicPartition, float] = {}
    by_broker = {broker.broker_id: 0.0 for broker in now.brokers}
    for each in now.partitions():
        earlier = ends.get(each.at)
        if earlier is not None and each.end is not None:
            by_partition[each.at] = max(0, each.end - earlier) / seconds
            if each.leader is not None:
                by_broker[each.leader] = by_broker.get(each.leader, 0.0) + by_partition[each.at]
    held = {broker.broker_id: broker.held_bytes for broker in before.brokers}
    grown: dict[int, float] = {}
    for broker in now.brokers:
        earlier = held.get(broker.broker_id)
        if earlier is not None and broker.held_bytes is not None:
            grown[broker.broker_id] = max(0, broker.held_bytes - earlier) / seconds
    return Rates(by_partition=by_partition, by_broker=by_broker, bytes_by_broker=grown)

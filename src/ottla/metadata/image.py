"""The metadata as readers see it: a view that never changes.

A handler takes the image once and everything in it fits together, however long the handler takes. The next image
shares all that has not changed with the last one. Lookups on the produce and fetch paths are plain dictionary gets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.internal_topics import INTERNAL_TOPICS
from ottla.types import TopicId
from ottla.values import value

NO_LEADER = -1


@value
class PartitionImage:
    """Who holds a partition."""

    leader: int
    """Node id, or NO_LEADER."""
    leader_epoch: int
    replicas: tuple[int, ...]
    """In order of preference for leadership."""
    isr: tuple[int, ...]
    partition_epoch: int
    """Goes up with every change of this partition: a change based on an older one is refused."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    """1 while the leader recovers from an unclean election."""
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()


@value
class TopicImage:
    name: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionImage]
    """By index, in order: some clients' choice of a partition depends on the order in which they are told of them."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Endpoint(NamedTuple):
    """An address at which a broker listens."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    broker_id: int
    broker_epoch: int
    """Given out at registration: an older incarnation of the same broker has a lower one."""
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    """A fenced broker leads nothing and is not told to clients."""
    in_controlled_shutdown: bool = False
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    log_dirs: tuple[bytes, ...] = ()

    @property
    def client_endpoint(self) -> Endpoint:
        """Where clients reach it, and other brokers with what clients may ask too: it is registered first."""
        return self.endpoints[0]

    @property
    def is_active(self) -> bool:
        """Whether new replicas and leaders may be put here."""
        return not self.fenced and not self.in_controlled_shutdown


class ResourceType(IntEnum):
    """What a config belongs to, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has configs. The broker resource with an empty name stands for all brokers."""

    type: int
    name: str


ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: pairs of type and name, sorted by type; the name None means the default for that type."""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    return tuple(sorted(parts, key=lambda part: (part[0], part[1] is not None, part[1] or "")))


@value
class FeaturesImage:
    """What the cluster as a whole has agreed to use, and what this software can do."""

    finalized: Mapping[str, int]
    supported: Mapping[str, tuple[int, int]]
    epoch: int
    """Goes up with every change of `finalized`, so that a client keeps the newest it has seen."""


@value
class MetadataImage:
    topics: Mapping[str, TopicImage]
    topics_by_id: Mapping[TopicId, TopicImage]
    brokers: Mapping[int, BrokerImage]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]]
    features: FeaturesImage
    next_producer_id: int
    """The first id that no block has been given out for."""
    next_broker_epoch: int
    """Higher than that of any broker there ever was, those that have left included."""

    def config_of(self, type_: int, name: str) -> Mapping[str, str]:
        """What has been set for a resource while the cluster ran."""
        return self.configs.get(ConfigResource(type_, name), _NOTHING)

    @property
    def alive_brokers(self) -> frozenset[int]:
        """Those that are not fenced."""
        return frozenset(broker.broker_id for broker in self.brokers.values() if not broker.fenced)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(index)


_NOTHING: Mapping[str, str] = {}


def empty_image(supported_features: Mapping[str, tuple[int, int]]) -> MetadataImage:
    return MetadataImage(
        topics={},
        topics_by_id={},
        brokers={},
        configs={},
        client_quotas={},
        features=FeaturesImage(finalized={}, supported=supported_features, epoch=-1),
        next_producer_id=0,
        next_broker_epoch=0,
    )

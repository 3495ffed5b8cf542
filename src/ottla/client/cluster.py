"""What an Admin tells of a cluster: plain values, nothing that goes back to the broker when it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.types import TopicPartition

Offsets = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]
"""A number (an offset, or a time to look for) per partition."""

EARLIEST = -2
"""In place of a timestamp: the first record that the partition still holds."""
LATEST = -1
"""In place of a timestamp: where the next record will go."""
MAX_TIMESTAMP = -3
"""In place of a timestamp: the record with the highest timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str | None
    controller: BrokerInfo | None
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made. None leaves a number to the broker's defaults."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    replica_assignment: tuple[tuple[int, ...], ...] = ()
    """Broker ids per partition, in place of the two numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    name: str
    partitions: int
    replication_factor: int
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    partition: int
    leader: int | None
    """Broker id; None while there is no leader."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionInfo, ...]


class ResourceType(Enum):
    """What has configs."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


class ConfigSource(Enum):
    """Where a value comes from, the strongest first."""

    TOPIC = "topic"
    GROUP = "group"
    DYNAMIC_BROKER = "dynamic broker"
    DYNAMIC_DEFAULT = "dynamic default"
    STATIC_BROKER = "static broker"
    DEFAULT = "default"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None
    """None if it is not set, or secret."""
    source: ConfigSource
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    group_id: str
    state: str
    """As Kafka's tools say it: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead."""
    type: str
    """Classic or Consumer."""
    simple: bool
    """Only offsets are kept: no member ever joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    simple: bool
    assignor: str
    coordinator: BrokerInfo | None
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    offset: int
    """The next offset that the group will read."""
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """The answer to "which offset?"; -1 if no record is that young."""

    offset: int
    timestamp: int
    """Milliseconds since 1970; -1 where the question was not about time."""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a reader is behind in one partition."""

    partition: TopicPartition
    position: int | None
    """The next offset to be read; None: nothing was read or committed yet."""
    start_offset: int
    end_offset: int
    records: int | None
    """Offsets between the two; None without a position."""
    seconds: float | None
    """Age of the oldest record not read yet; 0.0 when there is none; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionLag:
    """One line of `group describe`: a partition, who reads it, and how far behind the group is."""

    lag: PartitionLag
    member: GroupMember | None

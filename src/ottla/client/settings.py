"""What a client can be told, with the names that users of Kafka's clients know, and how librdkafka calls it.

Everything is checked when it is built. What has no field here goes into `extra` under librdkafka's own name
(security, socket and fetch tuning); `extra` wins over the fields.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ottla.client.errors import ClientError
from ottla.errors import ConfigError
from ottla.types import TopicPartition

Servers = str | Sequence[str]
Settings = dict[str, Any]
"""librdkafka's settings by their names."""

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")


class AckMode(Enum):
    """Who must have a record on disk before it counts as sent."""

    NONE = 0
    """Nobody: the record is not even known to have arrived."""
    LEADER = 1
    """The leader of the partition."""
    ALL = -1
    """Every in-sync replica. The default, and what idempotence needs."""


class OffsetResetPolicy(Enum):
    """Where a group starts in a partition for which it has no offset, or one that is gone."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "error"
    """Nowhere: `poll` raises."""


class IsolationLevel(Enum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OnBadRecord(Enum):
    """What `poll` does with a record whose deserializer fails."""

    RAISE = "raise"
    """Raise DeserializationError, again and again, until the program seeks past the record."""
    SKIP = "skip"
    """Log it and go on with the next."""
    KEEP = "keep"
    """Hand it out with the bytes as they are and the reason in `message.error`."""


def server_list(servers: Servers) -> str:
    """`"a:9092,b:9092"` from that or from a list of addresses."""
    addresses = servers.split(",") if isinstance(servers, str) else list(servers)
    cleaned = [address.strip() for address in addresses if address.strip()]
    if not cleaned:
        raise ConfigError("bootstrap_servers is empty; give at least one host:port")
    return ",".join(cleaned)


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """Settings of an Admin."""

    bootstrap_servers: Servers = "localhost:9092"
    client_id: str = "ottla-admin"
    request_timeout_ms: int = 30_000
    """How long one call may take, finding the broker included."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        server_list(self.bootstrap_servers)
        require(self.request_timeout_ms > 0, "request_timeout_ms must be positive")

    def librdkafka(self) -> Settings:
        return {
            "bootstrap.servers": server_list(self.bootstrap_servers),
            "client.id": self.client_id,
            "socket.timeout.ms": self.request_timeout_ms,
            **RECONNECT,
            **self.extra,
        }


RECONNECT: Mapping[str, Any] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1_000}
"""A node is back within a second of its restart; librdkafka's own 10 s would make every client wait for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings of a Producer. The defaults are the safe ones: all in-sync replicas, no duplicates."""

    bootstrap_servers: Servers = "localhost:9092"
    client_id: str = "ottla-producer"
    acks: AckMode = AckMode.ALL
    enable_idempotence: bool | None = None
    """No duplicates and no reordering when a send is repeated. None: on, if `acks` is ALL."""
    transactional_id: str | None = None
    """For `Producer.transaction`: the name of who writes, the same after a restart. Whoever starts with it fences those
    who had it before."""
    transaction_timeout_ms: int = 60_000
    """A transaction that is open for longer is aborted by the cluster."""
    batch_size: int = 16_384
    """Bytes of a partition's batch."""
    linger_ms: float = 10
    """How long a batch waits to fill. 0 for the lowest latency of single records."""
    retries: int = 2_147_483_647
    """How often a failed request is sent again, with exponential back-off, within `delivery_timeout_ms`."""
    retry_backoff_ms: int = 100
    compression_type: str = "none"
    buffer_memory: int = 64 * 1024 * 1024
    """Bytes that may wait to be sent; `send` blocks when they are used up."""
    buffer_records: int = 100_000
    """Records that may wait to be sent: the same bound for small ones."""
    max_block_ms: int = 60_000
    """How long `send` waits for room in the buffer before BufferFullError."""
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    """From `send` to the acknowledgement, repeats included. Then the future raises DeliveryError."""
    partitioner: str = "murmur2_random"
    """Java's: the same key goes to the same partition, whichever client sends it."""
    metrics_interval_ms: int = 5_000
    """How often librdkafka's figures behind `metrics()` are renewed; 0: never."""
    key_serializer: Callable[[Any], bytes | None] | None = None
    value_serializer: Callable[[Any], bytes | None] | None = None
    """From what `send` is given to bytes. None: bytes as they are, str in UTF-8, anything else as JSON."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        server_list(self.bootstrap_servers)
        known = ", ".join(COMPRESSIONS)
        require(self.compression_type in COMPRESSIONS, f"compression_type {self.compression_type!r} is none of {known}")
        require(
            not (self.enable_idempotence and self.acks is not AckMode.ALL),
            f"enable_idempotence needs acks=AckMode.ALL, not {self.acks.name}",
        )
        require(self.transactional_id != "", "transactional_id must not be empty; leave it out for no transactions")
        require(
            self.transactional_id is None or self.idempotent,
            "transactional_id needs idempotence, which acks or enable_idempotence rule out",
        )
        require(self.transaction_timeout_ms > 0, "transaction_timeout_ms must be positive")
        require(self.batch_size > 0, "batch_size must be positive")
        require(self.linger_ms >= 0, "linger_ms must not be negative")
        require(self.linger_ms <= self.delivery_timeout_ms, "linger_ms must not exceed delivery_timeout_ms")
        require(self.buffer_memory >= 1024, "buffer_memory must be at least 1024 bytes")
        require(self.buffer_records > 0, "buffer_records must be positive")
        require(self.max_block_ms >= 0, "max_block_ms must not be negative")
        require(self.delivery_timeout_ms > 0, "delivery_timeout_ms must be positive")

    @property
    def idempotent(self) -> bool:
        return self.acks is AckMode.ALL if self.enable_idempotence is None else self.enable_idempotence

    def librdkafka(self) -> Settings:
        return {
            **self._transactional(),
            "bootstrap.servers": server_list(self.bootstrap_servers),
            "client.id": self.client_id,
            "acks": self.acks.value,
            "enable.idempotence": self.idempotent,
            "batch.size": self.batch_size,
            "linger.ms": self.linger_ms,
            "retries": self.retries,
            "retry.backoff.ms": self.retry_backoff_ms,
            "compression.type": self.compression_type,
            "queue.buffering.max.kbytes": self.buffer_memory // 1024,
            "queue.buffering.max.messages": self.buffer_records,
            "request.timeout.ms": self.request_timeout_ms,
            "message.timeout.ms": self._message_timeout_ms,
            "partitioner": self.partitioner,
            "statistics.interval.ms": self.metrics_interval_ms,
            **RECONNECT,
            **self.extra,
        }

    def _transactional(self) -> Settings:
        if self.transactional_id is None:
            return {}
        return {"transactional.id": self.transactional_id, "transaction.timeout.ms": self.transaction_timeout_ms}

    @property
    def _message_timeout_ms(self) -> int:
        """A record that outlives its transaction is of no use, and librdkafka refuses such settings."""
        if self.transactional_id is None:
            return self.delivery_timeout_ms
        return min(self.delivery_timeout_ms, self.transaction_timeout_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Settings of a Consumer."""

    bootstrap_servers: Servers = "localhost:9092"
    client_id: str = "ottla-consumer"
    group_id: str | None = None
    """Whose offsets and partitions these are. None: no group; `assign` partitions, nothing is committed."""
    group_instance_id: str | None = None
    """A name that survives restarts: a static member comes back without a rebalance."""
    auto_offset_reset: OffsetResetPolicy = OffsetResetPolicy.LATEST
    enable_auto_commit: bool = True
    """Commit what earlier polls handed out, in the background, at a rebalance and at close: at least once."""
    auto_commit_interval_ms: int = 5_000
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for longer is taken for stuck and loses its partitions."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    partition_assignment_strategy: str | Sequence[str] = "range,roundrobin"
    """`range`, `roundrobin` or `cooperative-sticky`; the last can't be mixed with the others."""
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 100
    """How long a broker that has nothing holds a fetch. A seek, or a resume, takes effect when it has ended."""
    max_partition_fetch_bytes: int = 1_048_576
    metadata_max_age_ms: int = 5_000
    """How soon a new topic or partition is noticed."""
    request_timeout_ms: int = 30_000
    key_deserializer: Callable[[bytes], Any] | None = None
    value_deserializer: Callable[[bytes], Any] | None = None
    """From bytes to what a message holds. None: the bytes. Not called for a null."""
    on_bad_record: OnBadRecord = OnBadRecord.RAISE
    on_commit: Callable[[Mapping[TopicPartition, int], ClientError | None], object] | None = None
    """Told of every commit in the background and every `commit_async`. Without it, failures are logged."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        server_list(self.bootstrap_servers)
        unknown = set(self.assignors) - set(ASSIGNORS)
        require(not unknown, f"partition_assignment_strategy {sorted(unknown)} is none of {', '.join(ASSIGNORS)}")
        mixed = self.cooperative and len(self.assignors) > 1
        require(not mixed, "cooperative-sticky can't be combined with range or roundrobin")
        require(self.max_poll_records > 0, "max_poll_records must be positive")
        require(self.session_timeout_ms > self.heartbeat_interval_ms, "session_timeout_ms must exceed the heartbeat's")
        require(
            self.max_poll_interval_ms >= self.session_timeout_ms, "max_poll_interval_ms is below session_timeout_ms"
        )
        require(self.group_id != "", "group_id must not be empty; leave it out for a consumer without a group")

    @property
    def assignors(self) -> tuple[str, ...]:
        given = self.partition_assignment_strategy
        return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else tuple(given)

    @property
    def cooperative(self) -> bool:
        return "cooperative-sticky" in self.assignors

    def librdkafka(self) -> Settings:
        member = {"group.instance.id": self.group_instance_id} if self.group_instance_id else {}
        return {
            "bootstrap.servers": server_list(self.bootstrap_servers),
            "client.id": self.client_id,
            # librdkafka wants a group id even where none is used.
            "group.id": self.group_id or "ottla-no-group",
            **member,
            "auto.offset.reset": self.auto_offset_reset.value,
            "enable.auto.commit": self.enable_auto_commit and self.group_id is not None,
            # We say what may be committed: see Consumer.poll.
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": self.auto_commit_interval_ms,
            "max.poll.interval.ms": self.max_poll_interval_ms,
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": self.heartbeat_interval_ms,
            "partition.assignment.strategy": ",".join(self.assignors),
            "isolation.level": self.isolation_level.value,
            "fetch.min.bytes": self.fetch_min_bytes,
            "fetch.wait.max.ms": self.fetch_max_wait_ms,
            "max.partition.fetch.bytes": self.max_partition_fetch_bytes,
            "topic.metadata.refresh.interval.ms": self.metadata_max_age_ms,
            "socket.timeout.ms": self.request_timeout_ms,
            # How long a partition rests when enough of it is fetched; librdkafka's own 1 s is felt after a pause.
            "fetch.queue.backoff.ms": 20,
            **RECONNECT,
            **self.extra,
        }

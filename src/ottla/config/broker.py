"""The settings of a whole node, and of the parts of it that serve clients."""

from dataclasses import dataclass, field
from enum import StrEnum

from ottla.config.cleaner import CleanerConfig
from ottla.config.cluster import ClusterConfig
from ottla.config.groups import GroupConfig
from ottla.config.http import HttpConfig
from ottla.config.log import LogConfig
from ottla.config.membership import GossipConfig
from ottla.config.quorum import QuorumConfig
from ottla.config.replication import ReplicationConfig
from ottla.config.seeds import seed_names
from ottla.config.settings import check_limits, refused, setting
from ottla.config.storage import JournalConfig, StorageConfig
from ottla.config.transactions import TransactionConfig
from ottla.config.units import INT32_MAX, KIB, MIB, MINUTE_MS

EVERYWHERE = frozenset({"", "0.0.0.0", "::"})
"""Addresses that mean every interface: one can listen on them but not connect to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """What connections may cost."""

    frame_size_bytes_max: int = setting(100 * MIB, at_least=KIB, at_most=INT32_MAX, kafka=("socket.request.max.bytes",))
    """The largest request; a connection that announces a larger one is closed before anything is allocated for it."""
    connections_max: int = setting(10_000, at_least=1, kafka=("max.connections",))
    """Connections at once; a further one is closed as soon as it is accepted."""
    connection_idle_ms: int = setting(10 * MINUTE_MS, at_least=1, kafka=("connections.max.idle.ms",))
    """A connection that has been silent this long is closed."""
    send_buffer_bytes_max: int = setting(4 * MIB, at_least=KIB)
    """While this much of a connection's answers waits to be sent, no further request of it is read: a stalled reader
    costs this and one answer more."""
    requests_queued_max: int = setting(128, at_least=1)
    """Requests of one connection that may wait for their answers at once; no further one is read until some have left.
    Clients have 5 by default, the protocol sets no limit."""

    def __post_init__(self) -> None:
        check_limits(self, "network.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """What reading may cost."""

    fetch_max_bytes: int = setting(16 * MIB, at_least=KIB, at_most=INT32_MAX, kafka=("fetch.max.bytes",))
    """The most that one answer holds, whatever the client asks for; the first batch is always whole. Kafka's 55 MiB
    cost it no memory, since it sends from the file; here an answer may be in memory until it is sent."""
    unsent_bytes_max: int = setting(64 * MIB, at_least=MIB)
    """Answers of all connections that slow readers have not taken yet; while there is more, answers are small."""
    sessions_max: int = setting(1_000, at_least=0, kafka=("max.incremental.fetch.session.cache.slots",))
    """Fetch sessions kept for clients, so that they need not name every partition in every request."""
    session_eviction_ms: int = setting(2 * MINUTE_MS, at_least=0)
    """A session unused this long may give its place to a new one."""

    def __post_init__(self) -> None:
        check_limits(self, "fetch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """How rates are measured where a client has a quota."""

    window_num: int = setting(11, at_least=2, at_most=1_000, kafka=("quota.window.num",))
    """A rate is taken over this many windows, the current one included."""
    window_size_seconds: int = setting(1, at_least=1, at_most=3_600, kafka=("quota.window.size.seconds",))
    """The length of one window."""

    def __post_init__(self) -> None:
        check_limits(self, "quota.")


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingConfig:
    """What the node says of itself, on standard error."""

    level: LogLevel = LogLevel.INFO
    """The least important message that is still printed."""
    format: LogFormat = LogFormat.TEXT
    """text is for people, json has one object per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One node."""

    node_id: int = setting(1, at_least=0, at_most=INT32_MAX, kafka=("node.id", "broker.id"))
    """The node's number in its cluster; it must not change once the node has data."""
    address: str = "127.0.0.1"
    """Where the node listens: 0.0.0.0 for every interface. Only this machine can connect by default."""
    port: int = setting(9092, at_least=0, at_most=65_535)
    """The TCP port for the Kafka protocol; 0 takes a free one."""
    advertised_address: str | None = None
    """The host name that clients are told to connect to; none: the address. Needed where the node listens on every
    interface, or behind a proxy."""
    advertised_port: int | None = setting(None, at_least=1, at_most=65_535)
    """The port that clients are told to connect to; none: the port."""
    data_dir: str = setting("data", kafka=("log.dirs", "log.dir"))
    """The directory that holds everything the node keeps. One process owns it at a time."""
    cluster_port: int | None = setting(None, at_least=0, at_most=65_535)
    """The port on which nodes talk to each other: TCP for the quorum, UDP for gossip; 0 takes a free one. None: this
    node is a cluster of one that nobody can join."""
    seeds: frozenset[str] = frozenset()
    """Cluster addresses (host:port) of nodes of the cluster to join. Nodes that are first started with the same seeds,
    themselves among them, form a new cluster together."""
    rack: str | None = setting(None, kafka=("broker.rack",))
    """Where the node stands. Replicas of a partition are put on different racks where there are enough."""
    turn_us: int = setting(100, at_least=0, at_most=100_000)
    """How long the node's turns at the processor are while no other node of its cluster is at the same host: the
    shorter they are, the sooner Linux (6.12 and newer) lets it in where clients on the same machine take all of it. 0
    leaves that to the system, which is better where nodes share a machine under different host names."""

    num_partitions: int = setting(1, at_least=1, at_most=100_000, kafka=("num.partitions",))
    """Partitions of a topic whose creator names no number, or that is created by first use."""
    default_replication_factor: int = setting(1, at_least=1, at_most=32_767, kafka=("default.replication.factor",))
    """Replicas of such a topic."""
    auto_create_topics_enable: bool = setting(True, kafka=("auto.create.topics.enable",))
    """Whether a topic comes to be when it is first written to or asked for."""
    delete_topic_enable: bool = setting(True, kafka=("delete.topic.enable",))
    """Whether clients may delete topics."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    """What connections may cost."""
    fetch: FetchConfig = field(default_factory=FetchConfig)
    """What reading may cost."""
    quota: QuotaConfig = field(default_factory=QuotaConfig)
    """How rates are measured where a client has a quota."""
    journal: JournalConfig = field(default_factory=JournalConfig)
    """The write-ahead journal: what an acknowledgement means."""
    storage: StorageConfig = field(default_factory=StorageConfig)
    """What all partitions share on disk."""
    log: LogConfig = field(default_factory=LogConfig)
    """The logs of topics that do not set their own configs."""
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)
    """Compaction."""
    groups: GroupConfig = field(default_factory=GroupConfig)
    """Consumer groups and their offsets."""
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    """Transactions and their coordinators."""
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    """Brokers and their controller."""
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    """Raft for the metadata log."""
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    """Copies of partitions on other nodes."""
    gossip: GossipConfig = field(default_factory=GossipConfig)
    """Membership by gossip."""
    http: HttpConfig = field(default_factory=HttpConfig)
    """The HTTP API."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    """What the node says of itself."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.address in EVERYWHERE and not self.advertised_address:
            raise refused(
                "advertised_address",
                self.advertised_address,
                f"the host name that clients can reach, since the node listens on every interface ({self.address!r})",
            )
        if self.advertised_address in EVERYWHERE:
            raise refused("advertised_address", self.advertised_address, "a host name or address to connect to")
        if not self.data_dir:
            raise refused("data_dir", self.data_dir, "a directory")
        seed_names(self.seeds)

    @property
    def advertised_host(self) -> str:
        """The host that clients are sent to."""
        return self.advertised_address or self.address

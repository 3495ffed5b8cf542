"""How one partition's log is kept: what Kafka calls the topic configs.

`BrokerConfig.log` holds the values for topics that say nothing else; a topic's own configs replace them one by one
(`ottla.metadata.topic_configs`). Names and defaults are Kafka's.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from ottla.config.settings import check_limits, refused, setting
from ottla.config.units import DAY_MS, GIB, HOUR_MS, INT32_MAX, INT64_MAX, KIB, MIB, MINUTE_MS


class TimestampType(StrEnum):
    """Whose clock stamps a record."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CompressionType(StrEnum):
    """What a stored batch is compressed with; `producer` keeps what the client sent."""

    PRODUCER = "producer"
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


DELETE = "delete"
COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The log of one partition: how it rolls, what it keeps, what it accepts."""

    segment_bytes: int = setting(GIB, at_least=14, at_most=INT32_MAX)
    """A segment that would outgrow this is closed and a new one begins. Retention removes whole segments only."""
    segment_ms: int = setting(7 * DAY_MS, at_least=1, kafka=("log.roll.ms",))
    """A segment whose first record is this old is closed even if it is small, so that retention can reach it."""
    segment_jitter_ms: int = setting(0, at_least=0, kafka=("log.roll.jitter.ms",))
    """At most this much is taken off segment_ms at random, so that not all partitions roll at the same moment."""
    segment_index_bytes: int = setting(10 * MIB, at_least=4, at_most=INT32_MAX, kafka=("log.index.size.max.bytes",))
    """The most that one index file may hold; a full index closes its segment."""
    index_interval_bytes: int = setting(4 * KIB, at_least=0, at_most=INT32_MAX)
    """One index entry for this many bytes of records: what a lookup may have to scan."""
    retention_ms: int = setting(7 * DAY_MS, at_least=-1)
    """Closed segments whose newest record is older than this are removed; -1 keeps them for ever."""
    retention_bytes: int = setting(-1, at_least=-1)
    """The oldest segments are removed while the partition is larger than this; -1 sets no limit."""
    max_message_bytes: int = setting(MIB + 12, at_least=0, at_most=INT32_MAX, kafka=("message.max.bytes",))
    """The largest record batch that is accepted, as it comes (compressed or not)."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """CreateTime keeps the producer's timestamp, LogAppendTime puts the broker's in its place."""
    message_timestamp_before_max_ms: int = setting(INT64_MAX, at_least=0)
    """With CreateTime: how far before the broker's clock a timestamp may lie."""
    message_timestamp_after_max_ms: int = setting(HOUR_MS, at_least=0)
    """With CreateTime: how far after the broker's clock a timestamp may lie. A record from the far future would keep
    its segment from ever growing old."""
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    """delete removes old segments, compact keeps the newest record of every key; both may be given."""
    compression_type: CompressionType = field(
        default=CompressionType.PRODUCER, metadata={"kafka": ("compression.type",)}
    )
    """producer stores batches as they were sent; any other value compresses them anew, which costs CPU per record."""
    compression_gzip_level: int = setting(-1, at_least=-1, at_most=9, kafka=("compression.gzip.level",))
    """Used where compression_type is gzip; -1 is zlib's own choice."""
    compression_lz4_level: int = setting(9, at_least=1, at_most=17, kafka=("compression.lz4.level",))
    """Used where compression_type is lz4."""
    compression_zstd_level: int = setting(3, at_least=-131_072, at_most=22, kafka=("compression.zstd.level",))
    """Used where compression_type is zstd."""
    file_delete_delay_ms: int = setting(MINUTE_MS, at_least=0, kafka=("log.segment.delete.delay.ms",))
    """How long the files of a removed segment stay, renamed, so that a read under way can end."""
    preallocate: bool = False
    """Reserve a segment's room on the disk when it begins."""
    min_insync_replicas: int = setting(1, at_least=1, at_most=INT32_MAX, kafka=("min.insync.replicas",))
    """A write with acks=all is refused while fewer replicas than this are in sync."""
    unclean_leader_election_enable: bool = setting(False, kafka=("unclean.leader.election.enable",))
    """Whether a replica that is behind may lead when no replica in sync is left. True gives up acknowledged records
    for availability."""
    delete_retention_ms: int = setting(DAY_MS, at_least=0, kafka=("log.cleaner.delete.retention.ms",))
    """With compact: how long a deletion mark stays readable, so that a reader from the start sees it."""
    min_compaction_lag_ms: int = setting(0, at_least=0, kafka=("log.cleaner.min.compaction.lag.ms",))
    """With compact: a record younger than this is not compacted away."""
    max_compaction_lag_ms: int = setting(INT64_MAX, at_least=1, kafka=("log.cleaner.max.compaction.lag.ms",))
    """With compact: a record older than this is compacted even if the log is clean enough."""
    min_cleanable_dirty_ratio: float = setting(
        0.5, at_least=0.0, at_most=1.0, kafka=("log.cleaner.min.cleanable.ratio",)
    )
    """With compact: the share of uncompacted bytes from which on compaction pays."""
    flush_messages: int = setting(INT64_MAX, at_least=1, kafka=("log.flush.interval.messages",))
    """Sync the segment after this many records. The journal makes acknowledged records durable without it; it matters
    where durability is interval or os."""
    flush_ms: int = setting(INT64_MAX, at_least=0, kafka=("log.flush.interval.ms",))
    """Sync the segment after this time, as flush_messages does by count."""

    def __post_init__(self) -> None:
        check_limits(self, "log.")
        if not self.cleanup_policy or not self.cleanup_policy <= {DELETE, COMPACT}:
            raise refused("log.cleanup_policy", sorted(self.cleanup_policy), "delete, compact or both")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise refused("log.min_compaction_lag_ms", self.min_compaction_lag_ms, "at most log.max_compaction_lag_ms")

    @property
    def compacts(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return DELETE in self.cleanup_policy

"""The disk below all logs: the journal that makes writes durable, and what is shared between partitions."""

from dataclasses import dataclass
from enum import StrEnum

from ottla.config.settings import check_limits, setting
from ottla.config.units import DAY_MS, KIB, MIB, MINUTE_MS


class Durability(StrEnum):
    """What an acknowledgement means."""

    COMMIT = "commit"
    INTERVAL = "interval"
    OS = "os"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """The write-ahead journal of one broker."""

    durability: Durability = Durability.COMMIT
    """commit: an acknowledged record is on the disk. interval: synced every sync_interval_ms, a crash of the machine
    loses at most that. os: the operating system decides when, as Kafka does by default."""
    sync_interval_ms: int = setting(100, at_least=1, at_most=60_000)
    """With durability interval: the time between two syncs."""
    file_size_bytes: int = setting(64 * MIB, at_least=64 * KIB)
    """One file of the ring. It is written over only after the segments it covers are synced."""
    inline_sync_mean_us_max: int = setting(1_000, at_least=0)
    """While recent syncs are quicker than this on average the event loop does them itself, which is up to twice as fast
    as handing them to a thread; above it a thread does, so that a slow disk does not stop the node. 0 always uses the
    thread."""

    def __post_init__(self) -> None:
        check_limits(self, "journal.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """What all partitions of a node share on disk."""

    open_files_max: int = setting(16_384, at_least=16)
    """Descriptors that logs may hold at once; the least recently used are closed and opened again on demand. Three
    quarters of what the system allows a process is the most that is used."""
    retention_check_interval_ms: int = setting(5 * MINUTE_MS, at_least=1, kafka=("log.retention.check.interval.ms",))
    """The time between two looks for segments that retention lets go."""
    recovery_checkpoint_interval_ms: int = setting(
        MINUTE_MS, at_least=1, kafka=("log.flush.offset.checkpoint.interval.ms",)
    )
    """The time between two checkpoints of how far each log is synced: what recovery may have to look at is bounded by
    it."""
    producer_id_expiration_ms: int = setting(DAY_MS, at_least=1, kafka=("producer.id.expiration.ms",))
    """An idempotent producer that has been silent this long is forgotten, and with it the means to spot its
    duplicates."""

    def __post_init__(self) -> None:
        check_limits(self, "storage.")

"""Replication: what followers ask for, and how far behind one may be."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import INT32_MAX, INT64_MAX, KIB, MIB, SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """Copies of partitions on other nodes."""

    replica_lag_time_max_ms: int = setting(
        10 * SECOND_MS, at_least=1, at_most=INT32_MAX, kafka=("replica.lag.time.max.ms",)
    )
    """A follower that has not caught up for this long is no longer in sync: writers stop waiting for it."""
    replica_fetch_wait_max_ms: int = setting(500, at_least=1, at_most=INT32_MAX, kafka=("replica.fetch.wait.max.ms",))
    """How long a leader holds a follower's fetch when there is nothing new."""
    replica_fetch_max_bytes: int = setting(MIB, at_least=KIB, at_most=INT32_MAX, kafka=("replica.fetch.max.bytes",))
    """What a follower asks for of one partition at a time."""
    replica_fetch_response_max_bytes: int = setting(
        10 * MIB, at_least=KIB, at_most=INT32_MAX, kafka=("replica.fetch.response.max.bytes",)
    )
    """What a follower asks for of all partitions at a time."""
    catch_up_bytes_per_second: int = setting(INT64_MAX, at_least=KIB, kafka=("leader.replication.throttled.rate",))
    """What a node sends to followers that are not in sync, all together: new replicas, and those that were away."""
    high_watermark_checkpoint_interval_ms: int = setting(
        5 * SECOND_MS, at_least=1, at_most=INT32_MAX, kafka=("replica.high.watermark.checkpoint.interval.ms",)
    )
    """How often is written down how far each partition is known to be committed."""

    def __post_init__(self) -> None:
        check_limits(self, "replication.")

"""Consumer groups: what members may ask for, and how long committed offsets are kept."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, refused, setting
from ottla.config.units import DAY_MS, INT32_MAX, KIB, MIB, MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The group coordinator."""

    group_initial_rebalance_delay_ms: int = setting(250, at_least=0, kafka=("group.initial.rebalance.delay.ms",))
    """How long the first member of an empty group waits for others, so that members started together share one
    rebalance; it waits again as long as others keep coming. Kafka waits 3 s (measured: decisions/0005)."""
    group_min_session_timeout_ms: int = setting(6_000, at_least=1, kafka=("group.min.session.timeout.ms",))
    """The shortest session time-out a member may ask for."""
    group_max_session_timeout_ms: int = setting(30 * MINUTE_MS, at_least=1, kafka=("group.max.session.timeout.ms",))
    """The longest session time-out a member may ask for."""
    group_max_size: int = setting(INT32_MAX, at_least=1, at_most=INT32_MAX, kafka=("group.max.size",))
    """The most members that one group may have."""
    offset_metadata_max_bytes: int = setting(4 * KIB, at_least=0, kafka=("offset.metadata.max.bytes",))
    """The longest note that may be committed along with an offset."""
    offsets_retention_minutes: int = setting(7 * DAY_MS // MINUTE_MS, at_least=1, kafka=("offsets.retention.minutes",))
    """Offsets are forgotten this long after their group became empty, or after the last commit where a consumer assigns
    partitions by itself."""
    offsets_retention_check_interval_ms: int = setting(
        10 * MINUTE_MS, at_least=1, kafka=("offsets.retention.check.interval.ms",)
    )
    """The time between two looks for offsets to forget."""
    offsets_topic_num_partitions: int = setting(50, at_least=1, at_most=10_000, kafka=("offsets.topic.num.partitions",))
    """Partitions of __consumer_offsets. A group's partition depends on this number: it can't be changed once the topic
    exists."""
    offsets_topic_replication_factor: int = setting(
        3, at_least=1, at_most=32_767, kafka=("offsets.topic.replication.factor",)
    )
    """Replicas of __consumer_offsets; as many as there are brokers where there are fewer."""
    offsets_topic_segment_bytes: int = setting(
        100 * MIB, at_least=14, at_most=INT32_MAX, kafka=("offsets.topic.segment.bytes",)
    )
    """Segment size of __consumer_offsets: small, so that compaction keeps what is loaded at a start short."""

    def __post_init__(self) -> None:
        check_limits(self, "groups.")
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise refused(
                "groups.group_min_session_timeout_ms",
                self.group_min_session_timeout_ms,
                "at most groups.group_max_session_timeout_ms",
            )

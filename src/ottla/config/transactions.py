"""Transactions: how long they may take, and where their coordinators keep them."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import DAY_MS, INT32_MAX, MIB, MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The transaction coordinator."""

    transaction_max_timeout_ms: int = setting(
        15 * MINUTE_MS, at_least=1, at_most=INT32_MAX, kafka=("transaction.max.timeout.ms",)
    )
    """The longest time-out that a producer may ask for: after it an open transaction is aborted."""
    transactional_id_expiration_ms: int = setting(
        7 * DAY_MS, at_least=1, at_most=INT32_MAX, kafka=("transactional.id.expiration.ms",)
    )
    """A transactional id that nobody has used for this long is forgotten, unless it has a transaction."""
    transaction_remove_expired_interval_ms: int = setting(
        60 * MINUTE_MS,
        at_least=1,
        at_most=INT32_MAX,
        kafka=("transaction.remove.expired.transaction.cleanup.interval.ms",),
    )
    """The time between two looks for transactional ids to forget."""
    transaction_two_phase_commit_enable: bool = setting(True, kafka=("transaction.two.phase.commit.enable",))
    """Whether producers may prepare transactions that never time out, to commit them together with something else
    (KIP-939). Kafka's default is false; here the Spark sink relies on it, and `ottla txn` ends what was left behind."""
    transaction_state_log_num_partitions: int = setting(
        50, at_least=1, at_most=10_000, kafka=("transaction.state.log.num.partitions",)
    )
    """Partitions of __transaction_state. An id's partition depends on this number: it can't be changed once the topic
    exists."""
    transaction_state_log_replication_factor: int = setting(
        3, at_least=1, at_most=32_767, kafka=("transaction.state.log.replication.factor",)
    )
    """Replicas of __transaction_state; as many as there are brokers where there are fewer."""
    transaction_state_log_segment_bytes: int = setting(
        100 * MIB, at_least=14, at_most=INT32_MAX, kafka=("transaction.state.log.segment.bytes",)
    )
    """Segment size of __transaction_state: small, so that compaction keeps what is loaded at a start short."""

    def __post_init__(self) -> None:
        check_limits(self, "transactions.")

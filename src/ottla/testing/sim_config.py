"""Settings for simulated nodes: small sizes and short intervals, so that a short run rolls segments, reuses journal
files, checkpoints, and loses and regains replicas.
"""

from __future__ import annotations

from random import Random

from ottla.config import (
    BrokerConfig,
    CleanerConfig,
    ClusterConfig,
    GroupConfig,
    JournalConfig,
    LogConfig,
    QuorumConfig,
    ReplicationConfig,
    StorageConfig,
    TransactionConfig,
)

PORT = 9092
CLUSTER_PORT = 7946
FOUNDERS_MAX = 3
"""The first nodes found the cluster together, the others join it; sometimes there are two founders more."""
ALWAYS_INLINE_US = 1 << 40
"""A bound that no commit exceeds: the loop does them all. How long a commit really takes must decide nothing here."""
ALWAYS_IN_THREAD_US = 0


def node_config(number: int, host: str, dice: Random, shared: ClusterSettings | None) -> BrokerConfig:
    """`shared` is what all nodes of a cluster have in common; none: a node that nobody can join."""
    return BrokerConfig(
        node_id=number,
        address=host,
        port=PORT,
        cluster_port=None if shared is None else CLUSTER_PORT,
        seeds=frozenset() if shared is None else shared.seeds,
        journal=JournalConfig(
            file_size_bytes=dice.choice((64, 256)) * 1024,
            inline_sync_mean_us_max=dice.choice((ALWAYS_INLINE_US, ALWAYS_IN_THREAD_US, ALWAYS_IN_THREAD_US)),
        ),
        storage=StorageConfig(
            recovery_checkpoint_interval_ms=dice.choice((100, 1_000, 60_000)),
            retention_check_interval_ms=dice.choice((1_000, 300_000)),
        ),
        log=LogConfig(
            segment_bytes=dice.choice((2_000, 20_000, 1 << 30)),
            index_interval_bytes=dice.choice((0, 200, 4096)),
            min_insync_replicas=1 if shared is None else shared.min_insync_replicas,
        ),
        groups=GroupConfig(
            offsets_topic_num_partitions=3,
            offsets_topic_replication_factor=1 if shared is None else shared.replicas,
            group_initial_rebalance_delay_ms=dice.choice((0, 250)),
        ),
        transactions=TransactionConfig(
            transaction_state_log_num_partitions=3,
            transaction_state_log_replication_factor=1 if shared is None else shared.replicas,
        ),
        # Replicas are compacted at times of their own, and compared byte for byte; what compacts is simulated apart.
        cleaner=CleanerConfig(enable=False),
        cluster=ClusterConfig() if shared is None else shared.cluster,
        quorum=QuorumConfig() if shared is None else shared.quorum,
        replication=ReplicationConfig() if shared is None else shared.replication,
    )


class ClusterSettings:
    """Drawn once for a whole cluster."""

    def __init__(self, names: list[str], dice: Random, *, replicas: int) -> None:
        founders = dice.choice((FOUNDERS_MAX, FOUNDERS_MAX + 2)) if len(names) > FOUNDERS_MAX + 1 else FOUNDERS_MAX
        self.seeds = frozenset(f"{name}:{CLUSTER_PORT}" for name in names[:founders])
        self.replicas = replicas
        self.min_insync_replicas = dice.choice((1, 2, 2)) if replicas > 1 else 1
        self.cluster = ClusterConfig(
            broker_session_timeout_ms=dice.choice((2_000, 6_000)),
            broker_gone_after_ms=dice.choice((4_000, 600_000)),
            leader_rebalance_delay_ms=dice.choice((2_000, 30_000)),
        )
        self.quorum = QuorumConfig(
            snapshot_bytes=dice.choice((4_000, 20_000, 20 << 20)), voter_replace_ms=dice.choice((2_000, 30_000))
        )
        self.replication = ReplicationConfig(replica_lag_time_max_ms=dice.choice((1_000, 3_000, 10_000)))

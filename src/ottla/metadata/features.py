"""Features that the cluster as a whole switches on: only what is truly served.

A client looks at the finalized levels to decide which protocol it may use (`transaction.version` ≥ 2, `group.version`
≥ 1), so a level here is a promise.
"""

from collections.abc import Mapping

METADATA_VERSION = "metadata.version"

METADATA_LEVEL = 23
"""Kafka's 4.0-IV1: partition records name eligible leader replicas."""

ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
"""KIP-966. Always on: a cluster without it would have to keep a dead replica among those in sync."""

TRANSACTION_VERSION = "transaction.version"
"""KIP-890. At 2 clients leave it to Produce to add partitions to a transaction, and each transaction has an epoch of
its own; below that they name partitions first. Both are served at any level: it only tells clients what to do."""

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_LEVEL, METADATA_LEVEL),
    ELIGIBLE_LEADER_REPLICAS: (1, 1),
    TRANSACTION_VERSION: (0, 2),
}

"""The settings of a node: frozen, validated when they are built, one dataclass per subsystem.

    BrokerConfig ── network, fetch, quota   what clients may cost
                 ── journal, storage, log   what is kept, and how safely
                 ── cleaner                 compaction
                 ── groups                  consumer groups
                 ── transactions            transactions and their coordinators
                 ── cluster, quorum,        several nodes
                    replication, gossip
                 ── http                    the HTTP API
                 ── logging

Each field has its unit in its name and its reason below it. `load_config` puts together defaults, a YAML file, the
environment and the command line, in this order; `config/broker.yaml` and `docs/CONFIGURATION.md` are generated from
here (`ottla.config.render`). What an operator changes while the cluster runs is not here but in the metadata log.
"""

from ottla.config.broker import (
    BrokerConfig,
    FetchConfig,
    LogFormat,
    LoggingConfig,
    LogLevel,
    NetworkConfig,
    QuotaConfig,
)
from ottla.config.cleaner import CleanerConfig
from ottla.config.cluster import ClusterConfig
from ottla.config.groups import GroupConfig
from ottla.config.http import HttpConfig
from ottla.config.load import load_config
from ottla.config.log import COMPACT, DELETE, CompressionType, LogConfig, TimestampType
from ottla.config.membership import GossipConfig
from ottla.config.quorum import QuorumConfig
from ottla.config.replication import ReplicationConfig
from ottla.config.storage import Durability, JournalConfig, StorageConfig
from ottla.config.transactions import TransactionConfig

__all__ = [
    "COMPACT",
    "DELETE",
    "BrokerConfig",
    "CleanerConfig",
    "ClusterConfig",
    "CompressionType",
    "Durability",
    "FetchConfig",
    "GossipConfig",
    "GroupConfig",
    "HttpConfig",
    "JournalConfig",
    "LogConfig",
    "LogFormat",
    "LogLevel",
    "LoggingConfig",
    "NetworkConfig",
    "QuorumConfig",
    "QuotaConfig",
    "ReplicationConfig",
    "StorageConfig",
    "TimestampType",
    "TransactionConfig",
    "load_config",
]

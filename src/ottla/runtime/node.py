"""A whole node, built and wired in one place.

    Server ── Router ── handlers ──▶ Node (the services that handlers see)
                                      ├── Metadata ────────── controller ── log of __cluster_metadata
                                      ├── GroupCoordinators ─ shards ────── logs of __consumer_offsets
                                      ├── Partitions ─────────────────────── logs of topics
                                      ├── Fetcher
                                      └── Committer ── GroupCommit ── journal

Nothing here is global: two nodes in one process share nothing but the interpreter.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import ottla.handlers.all  # noqa: F401  # registers every handler
from ottla.config import BrokerConfig, LogConfig
from ottla.handlers.registry import apis
from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.state import Changes
from ottla.metadata.topic_configs import broker_log_config, topic_log_config
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.committer import Committer
from ottla.runtime.directory_lock import DirectoryLock
from ottla.runtime.disk import OsDisk
from ottla.runtime.dispatch import Router
from ottla.runtime.fetcher import Fetcher
from ottla.runtime.groups import GroupCoordinators
from ottla.runtime.identity import load_or_create
from ottla.runtime.metadata import Metadata
from ottla.runtime.partitions import Partitions
from ottla.runtime.producer_ids import ProducerIds
from ottla.runtime.quotas import NodeQuotas
from ottla.runtime.server import Server
from ottla.runtime.timers import Timers
from ottla.storage.group_commit import GroupCommit
from ottla.storage.log_manager import LogManager
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

COMMIT_THREADS = 1
"""One commit is in flight at a time."""
BACKGROUND_THREADS = 2


class Node:
    """`await node.start()`, then clients are served until `await node.stop()`."""

    def __init__(self, config: BrokerConfig, *, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.clock = SystemClock()
        self._loop = loop
        self._random = SystemRandom()
        self._timers = Timers(loop)
        self._server = Server(
            loop=loop,
            limits=config.network,
            clock=self.clock,
            timers=self._timers,
            router=Router(apis()),
            services=self,
        )
        self.port = config.port

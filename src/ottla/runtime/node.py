"""A whole node, built and wired in one place.

    Server ── Router ── handlers ──▶ Node (the services that handlers see)
                                      ├── Metadata ────────── controller ── log of __cluster_metadata
                                      ├── GroupCoordinators ─ shards ────── logs of __consumer_offsets
                                      ├── Partitions ────────────────────── logs of topics
                                      ├── Fetcher
                                      └── Committer ── GroupCommit ── journal

Nothing here is global: two nodes in one process share nothing but the interpreter.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from ottla.config import BrokerConfig, Durability, LogConfig
from ottla.errors import StorageError
from ottla.handlers import all as _handlers  # noqa: F401  # registers every handler
from ottla.handlers.registry import apis
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.controller import Controller
from ottla.metadata.image import Endpoint, MetadataImage, ResourceType
from ottla.metadata.state import Changes
from ottla.metadata.topic_configs import topic_log_config
from ottla.ports import Clock, Disk, Random
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.committer import Committer
from ottla.runtime.directory_lock import DirectoryLock
from ottla.runtime.disk import OsDisk
from ottla.runtime.dispatch import Router
from ottla.runtime.fetcher import Fetcher
from ottla.runtime.groups import GroupCoordinators
from ottla.runtime.identity import Identity, load_or_create
from ottla.runtime.local import LocalDoor
from ottla.runtime.log_dirs import NodeLogDirs
from ottla.runtime.metadata import Metadata
from ottla.runtime.partitions import Partitions
from ottla.runtime.producer_ids import ProducerIds
from ottla.runtime.quotas import NodeQuotas
from ottla.runtime.server import Server
from ottla.runtime.timers import Timers
from ottla.runtime.upkeep import Upkeep
from ottla.runtime.workers import Workers
from ottla.services import Deferred
from ottla.storage.log_manager import LogManager
from ottla.storage.recovery import RecoveryReport
from ottla.types import TopicId, TopicPartition

log = logging.getLogger(__name__)

PLAINTEXT = 0
COMMIT_THREADS = 1
"""One commit is in flight at a time."""
UPKEEP_THREADS = 1
SESSION_ID_MAX = 2**31 - 1


class Node:
    """`await node.start()`, then clients are served until `await node.stop()`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        disk: Disk | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        workers: Callable[[int, str], Executor] = Workers,
    ) -> None:
        """The outside is the real one unless given: a disk that is given needs no lock.

        `workers` makes what runs work outside of the loop, given the number of threads and a name for them.
        """
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.port = config.port
        self.controller_id = config.node_id
        self.quotas = NodeQuotas(config.quota)
        self._loop = loop
        self._random: Random = random or SystemRandom()
        self._given_disk = disk
        self._lock: DirectoryLock | None = None
        self._timers = Timers(loop)
        self._commit_threads = workers(COMMIT_THREADS, "ottla-commit")
        self._upkeep_threads = workers(UPKEEP_THREADS, "ottla-upkeep")
        router = Router(apis())
        self.local = LocalDoor(router, self)
        """For requests from inside the process, in this node's thread."""
        self._server = Server(
            loop=loop,
            limits=config.network,
            clock=self.clock,
            timers=self._timers,
            router=router,
            services=self,
        )

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    @property
    def controller(self) -> Metadata:
        return self._metadata

    # Starting

    async def start(self) -> None:
        """Returns when clients are served. Raises what keeps the node from starting, with nothing left open."""
        started = time.perf_counter()
        self.port = await self._server.bind(self.config.address, self.config.port)
        try:
            await self._open(self._given_disk or self._lock_disk())
        except BaseException as error:
            await self._server.close()
            self._unlock()
            if isinstance(error, OSError):
                raise StorageError(f"{error.strerror} ({error.filename or self.config.data_dir})") from error
            raise
        await self._server.serve()
        if self._lock is not None:
            self._lock.publish(f"{self.config.advertised_host}:{self.port}")
        took_ms = (time.perf_counter() - started) * 1000
        log.info("node %d serves on %s:%d after %.0f ms", self.config.node_id, self.config.address, self.port, took_ms)

    def _lock_disk(self) -> Disk:
        self._lock = DirectoryLock(self.config.data_dir)
        return OsDisk(self.config.data_dir, open_files_max=self.config.storage.open_files_max)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def _open(self, disk: Disk) -> None:
        self._identity: Identity = load_or_create(disk, self.config.node_id, self._random)
        self.cluster_id = self._identity.cluster_id
        self._logs = LogManager(disk, self.config, clock=self.clock, random=self._random)
        metadata_log = self._logs.recover_metadata()
        self.committer = Committer(
            loop=self._loop,
            group_commit=self._logs.group_commit,
            executor=self._commit_threads,
            inline_us_max=self._inline_us_max(),
        )
        self._metadata = Metadata(
            new_controller=lambda: Controller(self.config, self._random),
            log=metadata_log,
            committer=self.committer,
            clock=self.clock,
            timers=self._timers,
        )
        self._metadata.load()
        self._report(self._logs.recover(self._find_partition))
        self._wire()
        await self._register()
        self.groups.start()
        self._upkeep.start()

    def _inline_us_max(self) -> int:
        """Where nothing waits for the disk, a thread would only cost its switches."""
        journal = self.config.journal
        return sys.maxsize if journal.durability is Durability.OS else journal.inline_sync_p90_us_max

    def _find_partition(self, topic_id: TopicId, index: int) -> tuple[TopicPartition, LogConfig] | None:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None or index not in topic.partitions:
            return None
        return TopicPartition(topic.name, index), self._log_config(topic.name)

    def _known_partitions(self) -> Iterator[tuple[TopicPartition, TopicId, LogConfig]]:
        for topic in self.image.topics.values():
            config = self._log_config(topic.name)
            for index in topic.partitions:
                yield TopicPartition(topic.name, index), topic.topic_id, config

    def _report(self, report: RecoveryReport) -> None:
        for sentence in report.sentences():
            log.warning("recovery: %s", sentence)
        for directory in self._logs.strays(
            lambda known: self.image.partition(known.topic, known.partition) is not None
        ):
            log.warning("the directory %s belongs to no partition of this node", directory)

    def _wire(self) -> None:
        self.partitions = Partitions(logs=self._logs, image=lambda: self._metadata.image, log_config=self._log_config)
        self.fetcher = Fetcher(
            partitions=self.partitions,
            timers=self._timers,
            config=self.config.fetch,
            new_session_id=lambda: self._random.randint(1, SESSION_ID_MAX),
            unsent_bytes=lambda: self._server.unsent_bytes,
        )
        self.groups = GroupCoordinators(
            config=self.config,
            metadata=self._metadata,
            partitions=self.partitions,
            committer=self.committer,
            clock=self.clock,
            timers=self._timers,
            random=self._random,
        )
        self.producer_ids = ProducerIds(self._metadata, self.config.node_id)
        self.log_dirs = NodeLogDirs(self.config.data_dir, self.partitions)
        self._upkeep = Upkeep(
            logs=self._logs,
            config=self.config,
            clock=self.clock,
            timers=self._timers,
            loop=self._loop,
            executor=self._upkeep_threads,
            known=self._known_partitions,
            high_watermark=self.partitions.high_watermark,
            changed=self.committer.commit_soon,
        )
        self.committer.on_commit = self._upkeep.look
        self.quotas.update(self.image)
        self._metadata.listen(self._on_change)

    async def _register(self) -> None:
        """Tell the cluster, of which this node is the first member, where it can be reached."""
        registration = BrokerRegistration(
            broker_id=self.config.node_id,
            incarnation_id=self._random.randbytes(16),
            endpoints=[
                Endpoint(
                    name="PLAINTEXT",
                    host=self.config.advertised_host,
                    port=self.config.advertised_port or self.port,
                    security_protocol=PLAINTEXT,
                )
            ],
            rack=self.config.rack,
            log_dirs=[self._identity.directory_id],
        )
        await self._answer(
            self._metadata.call(lambda controller, _token, _now_ms: controller.register_broker(registration))
        )

    async def _answer(self, deferred: Deferred[int]) -> int:
        future: asyncio.Future[int] = self._loop.create_future()

        def done(answer: Deferred[int]) -> None:
            if answer.error is not None:
                future.set_exception(answer.error)
            else:
                future.set_result(answer.value or 0)

        deferred.on_done(done)
        return await future

    # The metadata changes

    def _on_change(self, changes: Changes) -> None:
        for topic in changes.topics_deleted:
            self.partitions.topic_deleted(topic)
        for created in changes.topics_created.values():
            self.partitions.topic_created(created)
        if changes.topics_deleted:
            self.groups.topics_deleted([topic.name for topic in changes.topics_deleted])
        if changes.configs:
            every = any(resource.type == ResourceType.BROKER for resource in changes.configs)
            named = [resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC]
            self.partitions.configs_changed(self.image.topics if every else named)
        if changes.client_quotas:
            self.quotas.update(self.image)

    def _log_config(self, topic: str) -> LogConfig:
        return topic_log_config(self.config, self._metadata.image, topic)

    # Stopping

    async def stop(self) -> None:
        """Everything that was acknowledged is on disk, and the next start has nothing to recover.

        Raises DiskFailedError if the disk would not have it: then the next start recovers, as after a crash.
        """
        await self._server.close()
        await self.committer.drain()
        try:
            await self._end_work()
            self._logs.close()
        finally:
            self._unlock()
        log.info("node %d has stopped", self.config.node_id)

    def drop_in_child(self) -> None:
        """In a forked process, which has nothing of this node but copies of its sockets."""
        self._server.drop_in_child()

    async def abandon(self) -> None:
        """Leave everything as it lies, as a crash would: for tests."""
        await self._server.close()
        await self._end_work()
        self._unlock()

    async def _end_work(self) -> None:
        await self.groups.close()
        await self._upkeep.stop()
        self._metadata.close()
        self._timers.close()
        self._commit_threads.shutdown()
        self._upkeep_threads.shutdown()

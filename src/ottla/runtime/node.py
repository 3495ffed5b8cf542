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
from collections.abc import Callable
from concurrent.futures import Executor

from ottla.config import BrokerConfig, Durability
from ottla.errors import ConfigError, PortTakenError, StorageError
from ottla.handlers import all as _handlers  # noqa: F401  # registers every handler
from ottla.handlers.registry import apis
from ottla.membership import Address
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import Endpoint, MetadataImage, ResourceType
from ottla.metadata.state import Changes
from ottla.observability.metrics import Refusals
from ottla.ports import Clock, Disk, Random
from ottla.runtime.after_commits import AfterCommits
from ottla.runtime.broker_client import BrokerClient
from ottla.runtime.cleaning import Cleaning
from ottla.runtime.cleaning_here import CleaningHere
from ottla.runtime.cleaning_process import CleaningProcess
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.cluster_door import ClusterDoor
from ottla.runtime.committer import Committer
from ottla.runtime.controller_channel import ControllerChannel, client_address
from ottla.runtime.crowding import Crowding
from ottla.runtime.directory_lock import DirectoryLock
from ottla.runtime.disk import OsDisk
from ottla.runtime.dispatch import Router
from ottla.runtime.fetcher import Fetcher
from ottla.runtime.forming import identity_alone
from ottla.runtime.groups import GroupCoordinators
from ottla.runtime.identity import Identity
from ottla.runtime.lifecycle import Introduction, Lifecycle
from ottla.runtime.local import LocalDoor
from ottla.runtime.log_dirs import NodeLogDirs
from ottla.runtime.marker_sending import MarkerSender
from ottla.runtime.marker_writing import MarkerWriter
from ottla.runtime.metadata import Metadata
from ottla.runtime.new_metadata import new_metadata
from ottla.runtime.new_topics import NewTopics
from ottla.runtime.others import Others
from ottla.runtime.outbox import Outbox
from ottla.runtime.own_logs import OwnLogs
from ottla.runtime.producer_ids import ProducerIds
from ottla.runtime.quorum_admin import QuorumAdmin
from ottla.runtime.quorum_snapshots import SnapshotTaker
from ottla.runtime.quotas import NodeQuotas
from ottla.runtime.replication import Replication
from ottla.runtime.room import Room
from ottla.runtime.server import Server
from ottla.runtime.timers import Timers
from ottla.runtime.transactions import TransactionCoordinators
from ottla.runtime.upkeep import Upkeep
from ottla.runtime.vanished import Vanished
from ottla.runtime.workers import Workers
from ottla.services import AUTOMATIC, FORWARDED, Deferred
from ottla.storage.log_manager import LogManager

log = logging.getLogger(__name__)

PLAINTEXT = 0
COMMIT_THREADS = 1
"""One commit is in flight at a time."""
UPKEEP_THREADS = 1
CLEANER_THREADS = 1
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
        cluster_port_if_free: int | None = None,
    ) -> None:
        """The outside is the real one unless given: a disk that is given needs no lock.

        `workers` makes what runs work outside of the loop, given the number of threads and a name for them.
        `cluster_port_if_free` is taken where the config names none; if it can't be, the node goes without.
        """
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.port = config.port
        self.quotas = NodeQuotas(config.quota)
        self.refusals = Refusals()
        self._loop = loop
        self._random: Random = random or SystemRandom()
        self._given_disk = disk
        self._lock: DirectoryLock | None = None
        self._cluster_port_if_free = cluster_port_if_free
        self.door: ClusterDoor | None = None
        """To other nodes; none where there is no cluster port."""
        self._others: Others | None = None
        self._timers = Timers(loop)
        self._commit_threads = workers(COMMIT_THREADS, "ottla-commit")
        self._upkeep_threads = workers(UPKEEP_THREADS, "ottla-upkeep")
        self._cleaner_threads = workers(CLEANER_THREADS, "ottla-cleaner")
        self.router = router = Router(apis())
        self.local = LocalDoor(router, self)
        """For requests from inside the process, in this node's thread."""
        self._own_requests = {name: LocalDoor(router, self, client_id=name) for name in (FORWARDED, AUTOMATIC)}
        """Those that this node has for its own controller."""
        self.on_broken: Callable[[], None] = _nothing
        """Called when the node should be stopped, since others do its work: its disk has failed."""
        self.on_brokers_changed: Callable[[], None] = _nothing
        """Called when the cluster's metadata tells of other brokers than before, or other things of them."""
        self._leaving: asyncio.Task[bool] | None = None
        self._outbox = Outbox()
        self._server = Server(
            loop=loop,
            limits=config.network,
            clock=self.clock,
            timers=self._timers,
            router=router,
            outbox=self._outbox,
            services=self,
        )

    @property
    def server(self) -> Server:
        return self._server

    @property
    def logs(self) -> LogManager:
        return self._logs

    @property
    def controller_id(self) -> int:
        return self._metadata.controller_id

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    @property
    def controller(self) -> Metadata:
        return self._metadata

    @property
    def is_controller(self) -> bool:
        """Also while a node that has nobody else to turn to is not ready yet: its calls wait for that."""
        return self._metadata.is_active or self._metadata.quorum.is_only_voter

    # Starting

    async def start(self) -> None:
        """Returns when clients are served. Raises what keeps the node from starting, with nothing left open."""
        started = time.perf_counter()
        self.port = await self._server.bind(self.config.address, self.config.port)
        try:
            disk = self._given_disk or self._lock_disk()
            self.door = await self._open_door()
            await self._open(disk)
            await self._join()
        except BaseException as error:
            await self._server.close()
            if self.door is not None:
                await self.door.drop()
            self._unlock()
            if isinstance(error, OSError):
                raise StorageError(f"{error.strerror} ({error.filename or self.config.data_dir})") from error
            raise
        await self._server.serve()
        if self._lock is not None:
            self._lock.publish(f"{self.config.advertised_host}:{self.port}")
        took_ms = (time.perf_counter() - started) * 1000
        log.info("node %d serves on %s:%d after %.0f ms", self.config.node_id, self.config.address, self.port, took_ms)

    async def _open_door(self) -> ClusterDoor | None:
        config = self.config
        port = self._cluster_port_if_free if config.cluster_port is None else config.cluster_port
        if port is None:
            if config.seeds:
                raise ConfigError("cluster_port: none is given, but there are seeds; it must be a port")
            return None
        door = ClusterDoor(config, loop=self._loop, clock=self.clock, timers=self._timers, random=self._random)
        try:
            await door.open(port)
        except PortTakenError as error:
            if config.cluster_port is not None or config.seeds:
                raise
            log.info("no other node can join this one: %s; --cluster-port takes another", error)
            return None
        return door

    def _lock_disk(self) -> Disk:
        self._lock = DirectoryLock(self.config.data_dir)
        return OsDisk(self.config.data_dir, open_files_max=self.config.storage.open_files_max)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def _open(self, disk: Disk) -> None:
        self._disk = disk
        self._identity: Identity = (
            identity_alone(disk, self.config.node_id, self._random) if self.door is None else await self.door.form(disk)
        )
        self.cluster_id = self._identity.cluster_id
        self._logs = LogManager(disk, self.config, clock=self.clock, random=self._random)
        metadata_log = self._logs.recover_metadata()
        self.committer = Committer(
            loop=self._loop,
            group_commit=self._logs.group_commit,
            executor=self._commit_threads,
            outbox=self._outbox,
            inline_us_max=self._inline_us_max(),
            crowding=Crowding() if self._given_disk is None else None,
        )
        self.room = Room(disk)
        self._metadata = new_metadata(
            config=self.config,
            identity=self._identity,
            disk=disk,
            logs=self._logs,
            metadata_log=metadata_log,
            committer=self.committer,
            clock=self.clock,
            timers=self._timers,
            loop=self._loop,
            random=self._random,
        )
        self._metadata.load()
        self._own_logs = OwnLogs(self.config, self._metadata, self._logs)
        self._own_logs.recover()
        if self.door is None:
            self._own_logs.tell_strays()
        self._wire()
        if self.door is not None:
            self._others = self._new_others(self.door)
            kafka = Address(self.config.advertised_host, self.config.advertised_port or self.port)
            await self._others.meet(self._identity, kafka)
        self._metadata.quorum.start()

    async def _join(self) -> None:
        """Come into service."""
        try:
            await self.lifecycle.start()
            if self.door is not None and self._own_logs.drop_strays():
                self.committer.commit_soon()
            self.groups.start()
            self.transactions.start()
            self._upkeep.start()
            self._cleaning.start()
        except BaseException:
            await self._end_work()
            raise

    def _client_address_of(self, node_id: int) -> tuple[str, int] | None:
        found = client_address(self._metadata.image, node_id)
        return self.door.kafka_address_of(node_id) if found is None and self.door is not None else found

    def _new_others(self, door: ClusterDoor) -> Others:
        return Others(
            config=self.config,
            door=door,
            disk=self._disk,
            metadata=self._metadata,
            client=self.broker_client,
            server=self._server,
            vanished=self.vanished,
            clock=self.clock,
            timers=self._timers,
            loop=self._loop,
            executor=self._upkeep_threads,
        )

    def _inline_us_max(self) -> int:
        """Where nothing waits for the disk, a thread would only cost its switches."""
        journal = self.config.journal
        return sys.maxsize if journal.durability is Durability.OS else journal.inline_sync_mean_us_max

    def _wire(self) -> None:
        self.broker_client = BrokerClient(
            loop=self._loop,
            timers=self._timers,
            random=self._random,
            limits=self.config.network,
            client_id=f"ottla-{self.config.node_id}",
        )
        self.vanished = Vanished(image=lambda: self._metadata.image, clock=self.clock, timers=self._timers)
        self.broker_client.on_lost = self.vanished.lost_at
        self.controller_channel = ControllerChannel(
            loop=self._loop,
            client=self.broker_client,
            node_id=self.config.node_id,
            is_here=lambda: self.is_controller,
            controller_id=lambda: self._metadata.controller_id,
            address_of=self._client_address_of,
            serve_here=lambda request, version, client_id: self._own_requests[client_id].handle(request, version),
        )
        self.lifecycle = Lifecycle(
            introduction=self._introduction(),
            config=self.config.cluster,
            loop=self._loop,
            timers=self._timers,
            channel=self.controller_channel,
            image=lambda: self._metadata.image,
            applied_offset=lambda: self._metadata.applied_offset,
            register_alone=self._register_alone if self.door is None else None,
        )
        self.new_topics = NewTopics(
            channel=self.controller_channel, image=lambda: self._metadata.image, timers=self._timers
        )
        self._replication = Replication(
            config=self.config,
            disk=self._disk,
            logs=self._logs,
            image=lambda: self._metadata.image,
            log_config=self._own_logs.config_of,
            committer=self.committer,
            client=self.broker_client,
            channel=self.controller_channel,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            new_session_id=lambda: self._random.randint(1, SESSION_ID_MAX),
            clock=self.clock,
            timers=self._timers,
            outbox=self._outbox,
            loop=self._loop,
            refusals=self.refusals,
            room=self.room,
        )
        self.partitions = self._replication.partitions
        self.replica_fetches = self._replication.fetches
        self.acks = self._replication.acks
        self.fetcher = Fetcher(
            partitions=self.partitions,
            image=lambda: self._metadata.image,
            clock=self.clock,
            timers=self._timers,
            outbox=self._outbox,
            refusals=self.refusals,
            config=self.config.fetch,
            new_session_id=lambda: self._random.randint(1, SESSION_ID_MAX),
            unsent_bytes=lambda: self._server.unsent_bytes,
            is_in_touch=lambda: self.lifecycle.is_in_touch,
        )
        self.groups = GroupCoordinators(
            config=self.config,
            image=lambda: self._metadata.image,
            new_topics=self.new_topics,
            partitions=self.partitions,
            committer=self.committer,
            clock=self.clock,
            timers=self._timers,
            random=self._random,
        )
        self.producer_ids = ProducerIds(
            channel=self.controller_channel,
            broker_id=self.config.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )
        self.transactions = self._new_transactions()
        self.log_dirs = NodeLogDirs(self.config.data_dir, self.partitions)
        self._upkeep = Upkeep(
            logs=self._logs,
            config=self.config,
            clock=self.clock,
            timers=self._timers,
            loop=self._loop,
            executor=self._upkeep_threads,
            known=self._own_logs.known,
            high_watermark=self.partitions.high_watermark,
            changed=self.committer.commit_soon,
        )
        self._cleaning = self._new_cleaning()
        self._after_commits = AfterCommits(
            room=self.room, upkeep=self._upkeep, journal=self._logs.group_commit.journal, timers=self._timers
        )
        self.committer.on_commit = self._after_commits.committed
        self.committer.on_broken = self._metadata.quorum.on_broken = self._disk_failed
        self.quorum = QuorumAdmin(metadata=self._metadata, clock=self.clock, timers=self._timers)
        self._snapshots = SnapshotTaker(
            quorum=self._metadata.quorum,
            loop=self._loop,
            executor=self._upkeep_threads,
            bytes_max=self.config.quorum.snapshot_bytes,
        )
        self._metadata.snapshots = self._snapshots
        self.quotas.update(self.image)
        self._replication.start()
        self._metadata.listen(self._on_change)

    def _introduction(self) -> Introduction:
        """What this node says of itself to the controller."""
        plaintext = Endpoint(
            name="PLAINTEXT",
            host=self.config.advertised_host,
            port=self.config.advertised_port or self.port,
            security_protocol=PLAINTEXT,
        )
        return Introduction(
            broker_id=self.config.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self._random.randbytes(16),
            directory_ids=[self._identity.directory_id],
            endpoints=[plaintext] if self.door is None else [plaintext, self.door.endpoint],
            rack=self.config.rack,
        )

    def _new_cleaning(self) -> Cleaning:
        """On a real disk compaction is done by another process; one that was given, only this process has."""
        compactor = CleaningProcess(self.config.data_dir) if self._given_disk is None else CleaningHere(self._disk)
        return Cleaning(
            logs=self._logs,
            config=self.config.cleaner,
            clock=self.clock,
            timers=self._timers,
            loop=self._loop,
            executor=self._cleaner_threads,
            high_watermark=self.partitions.high_watermark,
            held_back=self._upkeep.look,
            compactor=compactor,
        )

    def _new_transactions(self) -> TransactionCoordinators:
        writer = MarkerWriter(
            partitions=self.partitions, groups=self.groups, committer=self.committer, clock=self.clock
        )
        return TransactionCoordinators(
            config=self.config,
            image=lambda: self._metadata.image,
            new_topics=self.new_topics,
            partitions=self.partitions,
            committer=self.committer,
            clock=self.clock,
            timers=self._timers,
            producer_ids=self.producer_ids,
            client=self.broker_client,
            writer=writer,
            sender=MarkerSender(
                node_id=self.config.node_id,
                image=lambda: self._metadata.image,
                image_is_newest=lambda: self._metadata.is_active,
                writer=writer,
                client=self.broker_client,
                timers=self._timers,
                now_s=self._loop.time,
            ),
        )

    def _register_alone(self, registration: BrokerRegistration) -> Deferred[int]:
        return self._metadata.call(lambda controller, _token, now_ms: controller.register_broker(registration, now_ms))

    # The metadata changes

    def _on_change(self, changes: Changes) -> None:
        self._replication.changed(changes)
        if changes.topics_deleted:
            self.groups.topics_deleted([topic.name for topic in changes.topics_deleted])
        if changes.configs:
            every = any(resource.type == ResourceType.BROKER for resource in changes.configs)
            named = [resource.name for resource in changes.configs if resource.type == ResourceType.TOPIC]
            self.partitions.configs_changed(self.image.topics if every else named)
        if changes.client_quotas:
            self.quotas.update(self.image)
        if changes.brokers:
            self.on_brokers_changed()
        self.new_topics.image_changed()
        self.vanished.image_changed()
        self.lifecycle.image_changed()
        if self.door is not None:
            self.door.image_changed()

    # Stopping

    def _disk_failed(self) -> None:
        """Alone, a node that can't write any more is still good for reading. In a cluster others can do both."""
        if self.door is not None and len(self.image.brokers) > 1:
            log.error("this node can't write any more: it hands over what it leads, and leaves the cluster")
            self._leaving = self._loop.create_task(self.lifecycle.shutdown())
            self.on_broken()

    async def stop(self) -> None:
        """Everything that was acknowledged is on disk, and the next start has nothing to recover.

        Raises DiskFailedError if the disk would not have it: then the next start recovers, as after a crash.
        """
        await self.lifecycle.shutdown()
        await self._metadata.quorum.leave()
        self._server.serve_no_more()
        await self._acknowledge()
        await self._server.close()
        if self.door is not None and self.door.gossip is not None:
            await self.door.gossip.stop()
        try:
            await self._end_work(drain=True)
            self._logs.close()
        finally:
            self._unlock()
        log.info("node %d has stopped", self.config.node_id)

    async def _acknowledge(self) -> None:
        """Answer for all that was appended: a client that is not told has to send it again, and it is there twice."""
        answered = self._loop.create_future()
        self.committer.after_commit(None).on_done(lambda _: answered.set_result(None))
        await answered

    def drop_in_child(self) -> None:
        """In a forked process, which has nothing of this node but copies of its sockets."""
        self._server.drop_in_child()

    async def abandon(self) -> None:
        """Leave everything as it lies, as a crash would: for tests."""
        await self._server.close()
        await self._end_work()
        self._unlock()

    async def _end_work(self, *, drain: bool = False) -> None:
        """First all that writes, then the threads that do it for them."""
        self.lifecycle.close()
        self._replication.close()
        self.controller_channel.close()
        await self.broker_client.close()
        await self.transactions.close()
        await self.groups.close()
        await self._cleaning.stop()
        await self._upkeep.stop()
        await self._snapshots.stop()
        if self._others is not None:
            self._others.close()
        self._metadata.quorum.stop()
        self._metadata.close()
        if self.door is not None:
            await self.door.drop()
        try:
            if drain:
                await self.committer.drain()
        finally:
            self._timers.close()
            self._commit_threads.shutdown()
            self._upkeep_threads.shutdown()
            self._cleaner_threads.shutdown()


def _nothing() -> None:
    """Nobody stops the node."""

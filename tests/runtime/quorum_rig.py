"""The metadata of several nodes, and nothing else of them: real sockets, disks in memory, one event loop."""

import asyncio
import hashlib
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import uvloop

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import TopicRecord
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import Voter, VoterSet
from ottla.replicated import Result
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.committer import Committer
from ottla.runtime.metadata import Metadata
from ottla.runtime.outbox import Outbox
from ottla.runtime.peer_wire import Hello
from ottla.runtime.peers import Address, Peers
from ottla.runtime.quorum import Quorum
from ottla.runtime.quorum_snapshots import SnapshotTaker
from ottla.runtime.quorum_store import QuorumStore
from ottla.runtime.quorum_transfer import SnapshotTransfer
from ottla.runtime.timers import Timers
from ottla.runtime.workers import Workers
from ottla.services import Deferred
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk

T = TypeVar("T")
TICK_MS = 5
PATIENCE_S = 20


class Member:
    """One node, from a start to its end."""

    def __init__(self, cluster: "Cluster", node_id: int, disk: CrashingDisk, founders: VoterSet | None) -> None:
        self.node_id = node_id
        self.directory_id = bytes(15) + bytes([node_id])
        self.disk = disk
        self._cluster = cluster
        self._founders = founders
        self.is_running = False

    async def start(self) -> "Member":
        loop = asyncio.get_running_loop()
        config = BrokerConfig(port=0, node_id=self.node_id)
        clock, random = SystemClock(), SystemRandom()
        self.timers = Timers(loop)
        self.logs = LogManager(self.disk, config, clock=clock, random=random)
        metadata_log = self.logs.recover_metadata()
        self._workers = Workers(1, "test-commit")
        self.committer = Committer(
            loop=loop,
            group_commit=self.logs.group_commit,
            executor=self._workers,
            outbox=Outbox(),
            inline_us_max=sys.maxsize,
        )
        hello = Hello(node_id=self.node_id, directory_id=self.directory_id, cluster_id=self._cluster.cluster_id)
        self.peers = Peers(loop=loop, hello=hello, resolve=self._cluster.address_of)
        own = Voter(self.node_id, self.directory_id)
        self.quorum = Quorum(
            node_id=self.node_id,
            directory_id=self.directory_id,
            store=QuorumStore(self.disk, self.logs, metadata_log, founders=self._founders, own=own),
            committer=self.committer,
            clock=clock,
            timers=self.timers,
            loop=loop,
            random=random,
            tick_ms=TICK_MS,
            settings=self._cluster.settings,
            transport=self.peers,
        )
        self.metadata = Metadata(
            quorum=self.quorum,
            disk=self.disk,
            new_controller=lambda image, end: Controller(config, random, image=image, end_offset=end),
            clock=clock,
            timers=self.timers,
        )
        self.metadata.load()
        self.logs.recover(lambda _id, _index: None)
        self.transfer = SnapshotTransfer(
            disk=self.disk,
            peers=self.peers,
            quorum=self.quorum,
            timers=self.timers,
            loop=loop,
            executor=self._workers,
        )
        self.taker = SnapshotTaker(
            quorum=self.quorum, loop=loop, executor=self._workers, bytes_max=self._cluster.snapshot_bytes
        )
        self.metadata.snapshots = self.taker
        self._cluster.addresses[self.node_id] = ("127.0.0.1", await self.peers.bind("127.0.0.1", 0))
        await self.peers.serve()
        self.quorum.start()
        self.is_running = True
        return self

    async def stop(self) -> None:
        """In good order."""
        await self.quorum.leave()
        await self.committer.drain()
        await self._end()
        self.logs.close()

    async def kill(self) -> None:
        """Without a word: what its disk has not synced is gone, and callers lose their connection."""
        await self._end()
        self.metadata.on_refused(BrokerError(ErrorCode.NETWORK_EXCEPTION))
        self.disk = self.disk.crash()

    async def _end(self) -> None:
        self.is_running = False
        await self.taker.stop()
        self.transfer.close()
        self.quorum.stop()
        self.metadata.close()
        await self.peers.close()
        self.timers.close()
        self._workers.shutdown()

    async def restart(self) -> None:
        self._founders = None
        await self.start()

    # Asking

    @property
    def topics(self) -> set[str]:
        return set(self.metadata.image.topics)

    async def create(self, *names: str) -> list[int]:
        """Topics without partitions, which are all the metadata that these tests need. Their error codes.

        BrokerError if this is not the controller, or no longer.
        """

        def decide(controller: Controller, _token: object, _now_ms: int) -> Result[MetadataRecord, list[int]]:
            known = controller.image.topics
            new = [TopicRecord(name=name, topic_id=topic_id(name)) for name in names if name not in known]
            codes: list[int] = [ErrorCode.TOPIC_ALREADY_EXISTS if name in known else ErrorCode.NONE for name in names]
            return Result(records=new, response=codes)

        return await settled(self.metadata.call(decide))


def topic_id(name: str) -> bytes:
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()


class Cluster:
    def __init__(
        self, *, settings: RaftSettings | None = None, cluster_id: str = "here", snapshot_bytes: int = 1 << 30
    ) -> None:
        self.settings = settings or RaftSettings()
        self.cluster_id = cluster_id
        self.snapshot_bytes = snapshot_bytes
        self.addresses: dict[int, Address] = {}
        self.members: dict[int, Member] = {}

    def address_of(self, node_id: int) -> Address | None:
        return self.addresses.get(node_id)

    async def found(self, *node_ids: int) -> None:
        founders = VoterSet.of(node_ids)
        for node_id in node_ids:
            await self.join(node_id, founders)

    async def join(self, node_id: int, founders: VoterSet | None = None) -> Member:
        member = self.members[node_id] = Member(self, node_id, CrashingDisk(), founders)
        if founders is None:
            await member.start()
            member.quorum.set_contacts([other for other in self.members if other != node_id])
        else:
            await member.start()
        return member

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_running]

    def active(self) -> Member | None:
        """The one that may decide, if there is exactly one."""
        found = [member for member in self.running if member.metadata.is_active]
        return found[0] if len(found) == 1 else None

    async def controller(self) -> Member:
        await until(lambda: self.active() is not None)
        found = self.active()
        assert found is not None
        return found

    async def create(self, *names: str) -> None:
        """Wherever the controller is, and however often it changes."""
        while True:
            member = await self.controller()
            with suppress(BrokerError):
                await member.create(*names)
                return
            await asyncio.sleep(0.001)

    async def all_have(self, names: Iterable[str]) -> None:
        wanted = set(names)
        await until(lambda: all(wanted <= member.topics for member in self.running))

    async def end(self) -> None:
        for member in self.running:
            await member.kill()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)


async def settled(deferred: Deferred[T]) -> T:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(answer: Deferred[T]) -> None:
        if future.cancelled():
            return
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.value)

    deferred.on_done(done)
    async with asyncio.timeout(PATIENCE_S):
        result: T = await future
    return result


def run(scenario: Callable[[Cluster], Awaitable[None]], **cluster: Any) -> None:
    async def life() -> None:
        it = Cluster(**cluster)
        try:
            await scenario(it)
        finally:
            await it.end()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())


def dice(seed: int) -> Random:
    return Random(seed)

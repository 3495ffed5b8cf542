"""A committer with one partition on a disk in memory, in a loop that counts what it is asked to do."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import uvloop

from ottla.config import BrokerConfig, Durability, JournalConfig, LogConfig
from ottla.errors import BrokerError
from ottla.protocol.records import Record, build_batch
from ottla.replication.partition import Partition
from ottla.runtime.clock import SystemClock, SystemRandom
from ottla.runtime.commit_timing import Lookout
from ottla.runtime.committer import Committer
from ottla.runtime.crowding import Crowding
from ottla.runtime.outbox import Outbox
from ottla.storage.log import Origin
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk
from ottla.types import TopicPartition

INLINE_US = 10**9
NEVER_INLINE_US = 0


class Turns:
    """An event loop that counts what is called in its next turns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.count = 0

    def call_soon(self, callback: Any, *arguments: Any) -> Any:
        self.count += 1
        return self._loop.call_soon(callback, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Rig:
    def __init__(
        self, inline_us_max: int, durability: Durability = Durability.COMMIT, crowding: Crowding | None = None
    ) -> None:
        self.disk = CrashingDisk()
        self.clock = SystemClock()
        self.loop = Turns(asyncio.get_running_loop())
        config = BrokerConfig(journal=JournalConfig(durability=durability))
        self.logs = LogManager(self.disk, config, clock=self.clock, random=SystemRandom())
        self.logs.recover_metadata()
        self.logs.recover(lambda _topic_id, _index: None)
        self.threads = ThreadPoolExecutor(1)
        self.committer = Committer(
            loop=cast(asyncio.AbstractEventLoop, self.loop),
            group_commit=self.logs.group_commit,
            executor=self.threads,
            outbox=Outbox(),
            inline_us_max=inline_us_max,
            crowding=crowding,
        )
        log = self.logs.get(TopicPartition("t", 0), b"t" * 16, LogConfig())
        self.partition = Partition(topic="t", topic_id=b"t" * 16, index=0, leader_epoch=0, log=log)

    def append(self, value: bytes = b"x") -> int:
        now_ms = self.clock.now_ms()
        batch = build_batch([Record(key=None, value=value, headers=(), timestamp_ms=now_ms, offset=-1)])
        return self.committer.append(self.partition, batch, now_ms=now_ms, origin=Origin.CLIENT)

    async def outlast_a_look(self) -> None:
        """Let more turns pass than the loop ever looks out for."""
        for _ in range(2 * Lookout.TURNS_MAX):
            await asyncio.sleep(0)


def run(
    scenario: Any,
    inline_us_max: int = INLINE_US,
    durability: Durability = Durability.COMMIT,
    crowding: Crowding | None = None,
) -> None:
    async def limited() -> None:
        rig = Rig(inline_us_max, durability, crowding)
        try:
            await asyncio.wait_for(scenario(rig), 20)
        finally:
            rig.threads.shutdown()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())


def refusal(answer: Any, error: BrokerError) -> Any:
    """What a client is told instead of `answer`."""
    return error

"""The group coordinators of this node: one shard per partition of `__consumer_offsets`, loaded from it.

A partition that was never written to has no groups and is ready at once. The others are loaded in the background
after a start, a piece at a time so that other clients are served meanwhile; until then their groups answer that the
coordinator is loading, which clients retry by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import BrokerError, ErrorCode, ProtocolError
from ottla.groups.log_format import decode_record, encode_record
from ottla.groups.routing import partition_for_group
from ottla.groups.shard import GroupShard
from ottla.metadata.internal_topics import CONSUMER_OFFSETS, consumer_offsets_topic
from ottla.replicated import Result, Token
from ottla.runtime.shards import ShardRuntime
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.groups.records import GroupRecord
    from ottla.ports import Clock, Random
    from ottla.runtime.committer import Committer
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.partitions import Partitions
    from ottla.runtime.timers import Timers

log = logging.getLogger(__name__)

T = TypeVar("T")
Coordinator = ShardRuntime[GroupShard, "GroupRecord"]


class GroupCoordinators:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        metadata: Metadata,
        partitions: Partitions,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        random: Random,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._partitions = partitions
        self._committer = committer
        self._clock = clock
        self._timers = timers
        self._random = random
        self._ready: dict[int, Coordinator] = {}
        self._loading: set[int] = set()
        self._damaged: set[int] = set()
        """Partitions whose records can't be read: their groups have no coordinator."""
        self._task: asyncio.Task[None] | None = None

    # What handlers call.

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[Any, T]]) -> Deferred[T]:
        return self._coordinator(group_id).call(decide)

    def shards(self) -> Iterable[GroupShard]:
        if self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [coordinator.shard for coordinator in self._ready.values()]

    def ensure_topic(self) -> Deferred[None]:
        if CONSUMER_OFFSETS in self._metadata.image.topics:
            done: Deferred[None] = Deferred()
            done.complete(None)
            return done
        return self._metadata.create_internal_topic(consumer_offsets_topic(self._config.groups))

    def _coordinator(self, group_id: str) -> Coordinator:
        topic = self._metadata.image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        index = partition_for_group(group_id, len(topic.partitions))
        ready = self._ready.get(index)
        if ready is not None:
            return ready
        if index in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if index in self._damaged:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{CONSUMER_OFFSETS}-{index} is damaged")
        coordinator = self._ready[index] = self._new(index)
        return coordinator

    def _new(self, index: int) -> Coordinator:
        return ShardRuntime(
            shard=GroupShard(self._config.groups, self._random),
            partition=self._partitions.get(CONSUMER_OFFSETS, index),
            committer=self._committer,
            clock=self._clock,
            timers=self._timers,
            encode=encode_record,
            decode=decode_record,
            on_lost=lambda: self._lost(index),
        )

    def _lost(self, index: int) -> None:
        """The shard is ahead of its log: load it again from there. Members who wait in it look for it anew."""
        lost = self._ready.pop(index, None)
        self._loading.add(index)
        self._start_loading()
        if lost is not None:
            lost.dismiss(lost.shard.unload())

    # Loading after a start, and the end.

    def start(self) -> None:
        """Begin to load what earlier runs have left."""
        topic = self._metadata.image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return
        self._loading = set(topic.partitions)
        self._start_loading()

    def _start_loading(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        while self._loading:
            index = min(self._loading)
            try:
                await self._load(index)
            except (BrokerError, ProtocolError) as error:
                log.error("the groups of %s-%d are not served: %s", CONSUMER_OFFSETS, index, error)
                self._damaged.add(index)
            self._loading.discard(index)

    async def _load(self, index: int) -> None:
        coordinator = self._new(index)
        count = 0
        for records in coordinator.load():
            count += records
            await asyncio.sleep(0)
        self._ready[index] = coordinator
        if count:
            log.info("loaded the groups of %s-%d from %d records", CONSUMER_OFFSETS, index, count)

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Forget the offsets of topics that are gone."""
        for topic in topics:
            forget = _forget(topic)
            for coordinator in self._ready.values():
                coordinator.call(forget)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for coordinator in self._ready.values():
            coordinator.close()


def _forget(topic: str) -> Callable[[GroupShard, Token, int], Result[GroupRecord, None]]:
    return lambda shard, _token, now_ms: shard.topic_deleted(topic, now_ms)

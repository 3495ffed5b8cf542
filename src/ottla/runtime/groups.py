"""The group coordinators of this node: one shard per partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.batches import from_batch, to_batches
from ottla.groups.routing import partition_for_group
from ottla.groups.shard import GroupShard
from ottla.metadata.internal_topics import CONSUMER_OFFSETS
from ottla.replicated import Result, Token
from ottla.runtime.coordinators import Coordinators
from ottla.runtime.shard_format import ShardFormat
from ottla.runtime.shards import ShardRuntime
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.groups.records import GroupRecord
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock, Random
    from ottla.runtime.committer import Committer
    from ottla.runtime.new_topics import NewTopics
    from ottla.runtime.partitions import Partitions
    from ottla.runtime.timers import Timers

T = TypeVar("T")
Coordinator = ShardRuntime[GroupShard, "GroupRecord"]


class GroupCoordinators:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        new_topics: NewTopics,
        partitions: Partitions,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        random: Random,
    ) -> None:
        self._new_topics = new_topics
        self._shards: Coordinators[GroupShard] = Coordinators(
            topic=CONSUMER_OFFSETS,
            new_shard=lambda: GroupShard(config.groups, random),
            log_format=ShardFormat(to_batches, from_batch),
            image=image,
            partitions=partitions,
            committer=committer,
            clock=clock,
            timers=timers,
        )

    def start(self) -> None:
        """Begin to load what earlier runs, and other nodes, have left."""
        self._shards.start()

    # What handlers call.

    def call(self, group_id: str, decide: Callable[[GroupShard, Token, int], Result[Any, T]]) -> Deferred[T]:
        return self._shards.at(self.partition_of(group_id)).call(decide)

    def require_here(self, group_id: str) -> None:
        """Raises BrokerError where this node does not coordinate the group, or not yet."""
        self._shards.at(self.partition_of(group_id))

    def at(self, index: int) -> Coordinator:
        """The coordinator of one partition's groups. Raises BrokerError."""
        return self._shards.at(index)

    def partition_of(self, group_id: str) -> int:
        """Which partition of `__consumer_offsets` a group belongs to. Raises COORDINATOR_NOT_AVAILABLE."""
        count = self._shards.partition_count
        if not count:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for_group(group_id, count)

    def shards(self) -> Iterable[GroupShard]:
        return [coordinator.shard for coordinator in self._shards.all()]

    def ensure_topic(self) -> Deferred[None]:
        return self._shards.ensure_topic(self._new_topics)

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """Forget the offsets of topics that are gone."""
        for topic in topics:
            forget = _forget(topic)
            for coordinator in self._shards.ready():
                coordinator.call(forget)

    async def close(self) -> None:
        await self._shards.close()


def _forget(topic: str) -> Callable[[GroupShard, Token, int], Result[GroupRecord, None]]:
    return lambda shard, _token, now_ms: shard.topic_deleted(topic, now_ms)

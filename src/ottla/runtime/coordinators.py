"""Coordinators that follow the leadership of an internal topic's partitions.

Whoever leads a partition of `__consumer_offsets` or `__transaction_state` coordinates what is kept in it. When
leadership begins here, the partition's shard is loaded: first the high watermark must have reached what the log held at
that moment, for what earlier leaders have promised is all below; then the log is replayed, a piece at a time so that
other clients are served meanwhile. Until then callers are told that it loads, which they retry by themselves. When
leadership ends, the shard is thrown away, and those who wait in it look for the new coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.errors import BrokerError, ErrorCode, ProtocolError
from ottla.runtime.shards import Machine, ShardRuntime
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock
    from ottla.replication.partition import Partition
    from ottla.runtime.committer import Committer
    from ottla.runtime.new_topics import NewTopics
    from ottla.runtime.partitions import Partitions
    from ottla.runtime.shard_format import ShardFormat
    from ottla.runtime.timers import Timers

log = logging.getLogger(__name__)

REST_MS = 100
"""Between the loss of a shard whose records the disk did not take, and the next attempt."""

S = TypeVar("S", bound=Machine[Any])
OnReplayed = Callable[[ShardRuntime[S, Any]], Callable[[], None] | None]


class Coordinators(Generic[S]):
    """The shards of one internal topic that this node runs."""

    def __init__(
        self,
        *,
        topic: str,
        new_shard: Callable[[], S],
        log_format: ShardFormat[Any],
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        on_replayed: OnReplayed[S] | None = None,
    ) -> None:
        self.topic = topic
        self._new_shard = new_shard
        self._format = log_format
        self._image = image
        self._partitions = partitions
        self._committer = committer
        self._clock = clock
        self._timers = timers
        self._on_replayed = on_replayed
        self._ready: dict[int, ShardRuntime[S, Any]] = {}
        self._loading: dict[int, Partition] = {}
        """Those led here that are not ready, or will be when it is known how far they are committed."""
        self._to_load: dict[int, Partition] = {}
        self._damaged: set[int] = set()
        """Partitions whose records can't be read: nobody coordinates what is in them."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow: partitions that are led here now are loaded."""
        self._partitions.listen(self._led, self._unled)

    def ensure_topic(self, new_topics: NewTopics) -> Deferred[None]:
        """Done once the topic exists: it is created by the first who asks for a coordinator."""
        answer: Deferred[None] = Deferred()

        def created(codes: Deferred[Mapping[str, int]]) -> None:
            code = ErrorCode(codes.value[self.topic]) if codes.value else ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code:
                answer.fail(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic}: {code.name}"))
            else:
                answer.complete(None)

        new_topics.ensure([self.topic]).on_done(created)
        return answer

    # Who is asked

    @property
    def partition_count(self) -> int:
        """0 while the topic does not exist."""
        topic = self._image().topics.get(self.topic)
        return 0 if topic is None else len(topic.partitions)

    def at(self, index: int) -> ShardRuntime[S, Any]:
        """Raises BrokerError where this node is not the coordinator, or not yet."""
        ready = self._ready.get(index)
        if ready is not None:
            return ready
        if index in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if not self.partition_count or index in self._damaged:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        raise BrokerError(ErrorCode.NOT_COORDINATOR)

    def all(self) -> Iterable[ShardRuntime[S, Any]]:
        """All that are led here; refused while one of them loads."""
        if self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return list(self._ready.values())

    def ready(self) -> Iterable[ShardRuntime[S, Any]]:
        return list(self._ready.values())

    # Leadership

    def _led(self, partition: Partition) -> None:
        if partition.topic != self.topic:
            return
        self._drop(partition.index)
        self._damaged.discard(partition.index)
        self._begin_loading(partition)

    def _unled(self, topic: str, index: int) -> None:
        if topic == self.topic:
            self._drop(index)

    def _drop(self, index: int) -> None:
        self._loading.pop(index, None)
        self._to_load.pop(index, None)
        lost = self._ready.pop(index, None)
        if lost is not None:
            lost.close()

    def _begin_loading(self, partition: Partition) -> None:
        log_end = partition.log.end_offset
        if not log_end:
            self._loading.pop(partition.index, None)
            self._serve(self._new(partition))  # nothing was ever written
            return
        self._loading[partition.index] = partition

        def settled(error: BrokerError | None) -> None:
            if error is None and self._loading.get(partition.index) is partition:
                self._to_load[partition.index] = partition
                if self._task is None or self._task.done():
                    self._task = asyncio.get_running_loop().create_task(self._load_all())

        partition.when_committed(log_end, settled)

    async def _load_all(self) -> None:
        while self._to_load:
            index = min(self._to_load)
            partition = self._to_load.pop(index)
            try:
                await self._load(partition)
            except (BrokerError, ProtocolError) as error:
                if self._loading.get(index) is partition:
                    log.error("what is kept in %s-%d is not served: %s", self.topic, index, error)
                    self._damaged.add(index)
                    del self._loading[index]

    async def _load(self, partition: Partition) -> None:
        runtime = self._new(partition)
        count = 0
        for records in runtime.load():
            count += records
            await asyncio.sleep(0)
            if self._loading.get(partition.index) is not partition:
                return  # it was lost meanwhile
        del self._loading[partition.index]
        self._serve(runtime)
        if count:
            log.info("loaded %s-%d from %d records", self.topic, partition.index, count)

    def _serve(self, runtime: ShardRuntime[S, Any]) -> None:
        self._ready[runtime.partition.index] = runtime
        runtime.begin()

    def _new(self, partition: Partition) -> ShardRuntime[S, Any]:
        return ShardRuntime(
            shard=self._new_shard(),
            partition=partition,
            committer=self._committer,
            clock=self._clock,
            timers=self._timers,
            log_format=self._format,
            on_lost=lambda: self._lost(partition),
            on_replayed=self._on_replayed,
        )

    def _lost(self, partition: Partition) -> None:
        """The shard is ahead of its log. If that is still led here it is loaded again; else that is told by itself.

        After a rest: what is due at once would be refused at once again while the disk is full.
        """
        ready = self._ready.get(partition.index)
        if ready is not None and ready.partition is partition:
            del self._ready[partition.index]
            self._loading[partition.index] = partition
            self._timers.after_ms(REST_MS, lambda: self._load_again(partition))

    def _load_again(self, partition: Partition) -> None:
        if self._loading.get(partition.index) is not partition:
            return
        if self._committer.failed is None:
            self._begin_loading(partition)
        else:  # nothing is written until the node is started again: nobody is served who wants that
            self._loading.pop(partition.index)
            self._damaged.add(partition.index)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for runtime in list(self._ready.values()):
            runtime.close()

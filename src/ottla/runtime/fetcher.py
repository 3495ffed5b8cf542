"""Reads for clients: at once where there is enough, later where the client is willing to wait.

A fetch that must wait stands with each of its partitions and is told how many bytes became readable; it reads again
only when that is enough or its time is up. A node with ten thousand waiting readers does nothing for them until then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.observability.metrics import Histogram
from ottla.ports import header_of
from ottla.protocol.messages.fetch import (
    BY_TOPIC_ID_FROM,
    READ_COMMITTED,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.records import BASE_TIMESTAMP_AT, RECORDS_AT
from ottla.replication.fetch_sessions import FetchPlan, FetchSessions, Wanted
from ottla.replication.partition import Partition
from ottla.replication.preferred import NO_PREFERENCE, preferred_replica
from ottla.replication.readable import NO_EPOCH
from ottla.replication.replica_sessions import divergence
from ottla.runtime.fetch_again import fetch_again
from ottla.runtime.timers import Deadline, Timers
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.config import FetchConfig
    from ottla.metadata.image import MetadataImage
    from ottla.observability.metrics import Refusals
    from ottla.ports import Clock, Sendable
    from ottla.protocol.known_fetch import KnownFetch
    from ottla.replication.readable import Readable
    from ottla.runtime.outbox import Outbox
    from ottla.runtime.partitions import Partitions
    from ottla.storage.log import Log

Found: TypeAlias = "tuple[Wanted, Readable | None, PartitionData]"
"""What is wanted of a partition, the partition if there is one, and what the answer will say of it."""

_unpack_time = struct.Struct(">q").unpack_from
FROM_FOLLOWERS_FROM = 11
MOVED = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
"""Refusals with which the client is told who leads."""
SCARCE_BYTES = 64 * 1024
"""What a fetch may still read while slow readers hold the memory that is there for answers."""


class Fetcher:
    def __init__(
        self,
        *,
        partitions: Partitions,
        image: Callable[[], MetadataImage],
        clock: Clock,
        timers: Timers,
        outbox: Outbox,
        refusals: Refusals,
        config: FetchConfig,
        new_session_id: Callable[[], int],
        unsent_bytes: Callable[[], int],
        is_in_touch: Callable[[], bool],
    ) -> None:
        """`is_in_touch`: whether this node would know if it led no longer what it thinks it leads."""
        self.partitions = partitions
        self._image = image
        self._clock = clock
        self.timers = timers
        self.outbox = outbox
        self.refusals = refusals
        self.delivery = Histogram()
        """From the producer's clock to here, of the oldest record in answers that hold all there was to read."""
        self._config = config
        self._unsent_bytes = unsent_bytes
        self.is_in_touch = is_in_touch
        self.sessions = FetchSessions(
            slots_max=config.sessions_max, evict_after_ms=config.session_eviction_ms, new_id=new_session_id
        )

    def fetch(
        self, request: FetchRequest, api_version: int, now_ms: int, *, is_sent: bool = False
    ) -> FetchResponse | Deferred[FetchResponse]:
        plan = self.sessions.plan(request, now_ms)
        fetch = Fetch(self, request, plan, api_version, is_sent=is_sent)
        fetch.read()
        if fetch.failed or fetch.size_bytes >= request.min_bytes or request.max_wait_ms <= 0 or not fetch.found:
            return fetch.answer()
        return Waiting(fetch, self.timers, self.outbox).deferred

    def fetch_again(self, known: KnownFetch, offsets: Sequence[int]) -> Deferred[Any] | FetchResponse | bytes | None:
        return fetch_again(self, known, offsets)

    def delivered(self, records: Sendable) -> None:
        """The time of a producer on another machine may be ahead of ours."""
        sent_ms = _unpack_time(header_of(records), BASE_TIMESTAMP_AT)[0]
        self.delivery.record(max(0, self._clock.now_ms() - sent_ms) * 1000)

    def budget(self, asked_bytes: int) -> int:
        """How much one answer may hold: less while slow clients sit on answers, but always some progress."""
        spare = self._config.unsent_bytes_max - self._unsent_bytes()
        return min(asked_bytes, self._config.fetch_max_bytes, max(SCARCE_BYTES, spare))

    def partition(self, wanted: Wanted, api_version: int) -> Readable:
        """Led here; or followed, for readers that know that they may be sent to a follower."""
        partitions = self.partitions
        if api_version >= BY_TOPIC_ID_FROM:
            return partitions.readable_by_id(wanted.topic_id, wanted.index)
        if api_version >= FROM_FOLLOWERS_FROM:
            return partitions.readable(wanted.topic, wanted.index)
        return partitions.get(wanted.topic, wanted.index)

    def rack_of(self, broker_id: int) -> str | None:
        """None if it can't be read from now."""
        broker = self._image().brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.rack

    def leader_of(self, wanted: Wanted) -> LeaderIdAndEpoch:
        image = self._image()
        topic = image.topics.get(wanted.topic) if wanted.topic else image.topics_by_id.get(wanted.topic_id)
        partition = None if topic is None else topic.partitions.get(wanted.index)
        if partition is None:
            return LeaderIdAndEpoch()
        return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    def endpoints(self, broker_ids: Iterable[int]) -> list[NodeEndpoint]:
        brokers = self._image().brokers
        known = (brokers[broker_id] for broker_id in broker_ids if broker_id in brokers)
        return [
            NodeEndpoint(
                node_id=broker.broker_id,
                host=broker.client_endpoint.host,
                port=broker.client_endpoint.port,
                rack=broker.rack,
            )
            for broker in known
        ]


class Fetch:
    """One request, from the partitions it names to its answer."""

    __slots__ = (
        "_api_version",
        "_fetcher",
        "_is_sent",
        "_left_bytes",
        "_plan",
        "_rack",
        "failed",
        "found",
        "read_committed",
        "request",
        "size_bytes",
    )

    def __init__(
        self, fetcher: Fetcher, request: FetchRequest, plan: FetchPlan, api_version: int, *, is_sent: bool
    ) -> None:
        self._fetcher = fetcher
        self._is_sent = is_sent
        self._plan = plan
        self._api_version = api_version
        self._rack = request.rack_id
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.request = request
        self.found: list[Found] = []
        """What was read of each partition that the request wants."""
        self.size_bytes = 0
        self.failed = False

    def read(self) -> None:
        """Read all that is wanted, as far as the answer may hold it."""
        self._left_bytes = self._fetcher.budget(self.request.max_bytes)
        self.found = [self._try(wanted) for wanted in self._plan.wanted]

    def finds_more(self, partition: Readable) -> bool:
        """Whether a reader of committed records would now get something from where it is in a partition."""
        stable = partition.last_stable_offset
        return any(
            stable > max(data.last_stable_offset, wanted.fetch_offset)
            for wanted, found, data in self.found
            if found is partition
        )

    def read_again(self, partitions: Collection[Readable]) -> None:
        """Read what has become readable: of the others there is nothing new."""
        for at, (wanted, partition, _) in enumerate(self.found):
            if partition in partitions:
                self.found[at] = self._try(wanted)

    def _try(self, wanted: Wanted) -> Found:
        partition = None
        try:
            partition = self._fetcher.partition(wanted, self._api_version)
            return wanted, partition, self._read_one(wanted, partition)
        except BrokerError as error:
            code = error.code
        except CorruptBatchError:
            code = ErrorCode.CORRUPT_MESSAGE
        self.failed = True
        self._fetcher.refusals.count("Fetch", code.name)
        leader = self._fetcher.leader_of(wanted) if code in MOVED else None
        return wanted, partition, _refused(wanted.index, code, leader)

    def _read_one(self, wanted: Wanted, partition: Readable) -> PartitionData:
        partition.check_epoch(wanted.current_leader_epoch)
        log, offset, high_watermark = partition.log, wanted.fetch_offset, partition.high_watermark
        stable = log.stable_offset(high_watermark)
        if NO_EPOCH < wanted.last_fetched_epoch != partition.leader_epoch:
            diverging = divergence(log, wanted.last_fetched_epoch, offset)
            if diverging is not None:
                self.failed = True  # nothing to wait for: it has read what was taken back
                return _read_taken_back(wanted.index, partition, diverging)
        if not log.start_offset <= offset <= log.end_offset:
            if offset > log.end_offset:
                if not partition.is_led_here:
                    raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE)  # the leader may have it
                if isinstance(partition, Partition) and partition.followers and not self._fetcher.is_in_touch():
                    raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # another may lead, who has it
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._rack and isinstance(partition, Partition) and partition.followers:
            preferred = preferred_replica(partition, self._rack, offset, self._fetcher.rack_of)
            if preferred != NO_PREFERENCE:
                self.failed = True  # nothing to wait for here
                return _read_elsewhere(wanted.index, partition, preferred)
        upto = stable if self.read_committed else high_watermark
        records: Sendable = b""
        if offset < upto and (self._left_bytes > 0 or not self.size_bytes):
            asked_bytes = min(wanted.max_bytes, self._left_bytes)
            read = log.stretch if self._is_sent else log.read
            records = read(offset, asked_bytes, upto_offset=upto, min_one_batch=not self.size_bytes)
            size_bytes = len(records)
            self.size_bytes += size_bytes
            self._left_bytes -= size_bytes
            partition.read_bytes += size_bytes
            if RECORDS_AT <= size_bytes < asked_bytes:
                self._fetcher.delivered(records)
        return PartitionData(
            partition_index=wanted.index,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.start_offset,
            aborted_transactions=_aborted(log, offset, upto, records) if self.read_committed else None,
            records=records,
        )

    def answer(self) -> FetchResponse:
        found = self.found
        leaders = {data.current_leader.leader_id for *_, data in found if data.error_code} if self.failed else ()
        session = self._plan.session
        if session is not None:
            found = _news(found, all_of_them=not self._plan.incremental)
            session.served((w.topic, w.topic_id, w.index) for w, _, data in found if data.records)
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for wanted, _, data in found:
            topics.setdefault((wanted.topic, wanted.topic_id), []).append(data)
        return FetchResponse(
            session_id=self._plan.session_id,
            responses=[
                FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in topics.items()
            ],
            node_endpoints=self._fetcher.endpoints(leaders) if leaders else (),
        )


class Waiting:
    """A fetch that waits for enough bytes, or for its time to be up."""

    __slots__ = ("_deadline", "_fetch", "_is_held", "_missing_bytes", "_outbox", "_woken", "deferred")

    def __init__(self, fetch: Fetch, timers: Timers, outbox: Outbox) -> None:
        self.deferred: Deferred[FetchResponse] = Deferred()
        self.deferred.on_abandon = self._leave
        self._fetch = fetch
        self._outbox = outbox
        self._is_held = False
        """There is enough, and more of it may come before the outbox is closed."""
        self._missing_bytes = fetch.request.min_bytes - fetch.size_bytes
        self._woken: set[Readable] = set()
        for _, partition, _ in fetch.found:
            if partition is not None:
                partition.waiters[self] = None
        self._deadline: Deadline = timers.after_ms(fetch.request.max_wait_ms, self._finish)

    def more(self, partition: Readable, size_bytes: int) -> None:
        self._woken.add(partition)
        self._missing_bytes -= size_bytes
        if self._missing_bytes > 0:
            return
        if self._fetch.read_committed and not self._fetch.finds_more(partition):
            return  # what came is in a transaction that is open, or behind one
        if not self._is_held:
            self._is_held = True
            self._outbox.add(self)

    def flush(self) -> None:
        if self._is_held:
            self._finish()

    def gone(self, partition: Readable) -> None:
        self._woken.add(partition)
        self._finish()

    def _finish(self) -> None:
        if self.deferred.done:
            return
        self._leave()
        self._fetch.read_again(self._woken)
        self.deferred.complete(self._fetch.answer())

    def _leave(self) -> None:
        self._is_held = False
        self._deadline.cancel()
        for _, partition, _ in self._fetch.found:
            if partition is not None:
                partition.waiters.pop(self, None)


def _aborted(log: Log, offset: int, upto: int, records: Sendable) -> list[AbortedTransaction]:
    """What a reader of committed records must skip of these: a log may hold many more that come later."""
    return [
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in (log.aborted_among(records, offset, upto) if records else ())
    ]


def _refused(index: int, code: ErrorCode, leader: LeaderIdAndEpoch | None) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        current_leader=leader or LeaderIdAndEpoch(),
        records=b"",
    )


def _read_elsewhere(index: int, partition: Partition, replica_id: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        preferred_read_replica=replica_id,
        records=b"",
    )


def _read_taken_back(index: int, partition: Readable, diverging: EpochEndOffset) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=diverging,
        records=b"",
    )


def _news(found: list[Found], *, all_of_them: bool) -> list[Found]:
    """The partitions of which a session has something new to tell; remembers that it was told."""
    news = []
    for wanted, partition, data in found:
        if (
            all_of_them
            or data.records
            or data.error_code
            or data.preferred_read_replica != NO_PREFERENCE
            or data.diverging_epoch.epoch != NO_EPOCH
            or data.high_watermark != wanted.told_high_watermark
            or data.log_start_offset != wanted.told_log_start_offset
        ):
            wanted.told_high_watermark = -1 if data.error_code else data.high_watermark
            wanted.told_log_start_offset = data.log_start_offset
            news.append((wanted, partition, data))
    return news

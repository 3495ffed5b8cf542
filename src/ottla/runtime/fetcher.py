"""Reads for clients: at once where there is enough, later where the client is willing to wait.

A fetch that must wait stands with each of its partitions and is told how many bytes became readable; it reads again
only when that is enough or its time is up. A node with ten thousand waiting readers does nothing for them until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.replication.fetch_sessions import FetchPlan, FetchSessions, Wanted
from ottla.runtime.timers import Deadline, Timers
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.config import FetchConfig
    from ottla.replication.partition import Partition
    from ottla.runtime.partitions import Partitions

READ_COMMITTED = 1
SCARCE_BYTES = 64 * 1024
"""What a fetch may still read while slow readers hold the memory that is there for answers."""


@dataclass(slots=True)
class Reading:
    """What one pass over the wanted partitions found."""

    found: list[tuple[Wanted, PartitionData]]
    size_bytes: int = 0
    failed: bool = False


class Fetcher:
    def __init__(
        self,
        *,
        partitions: Partitions,
        timers: Timers,
        config: FetchConfig,
        new_session_id: Callable[[], int],
        unsent_bytes: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._timers = timers
        self._config = config
        self._unsent_bytes = unsent_bytes
        self.sessions = FetchSessions(
            slots_max=config.sessions_max, evict_after_ms=config.session_eviction_ms, new_id=new_session_id
        )
        self.waiting = 0

    def fetch(self, request: FetchRequest, api_version: int, now_ms: int) -> FetchResponse | Deferred[FetchResponse]:
        plan = self.sessions.plan(request, now_ms)
        fetch = Fetch(self, request, plan, by_id=api_version >= 13)
        reading = fetch.read()
        if reading.failed or reading.size_bytes >= request.min_bytes or request.max_wait_ms <= 0 or not reading.found:
            return fetch.answer(reading)
        return Waiting(fetch, reading, self._timers).deferred

    def budget(self, asked_bytes: int) -> int:
        """How much one answer may hold: less while slow clients sit on answers, but always some progress."""
        spare = self._config.unsent_bytes_max - self._unsent_bytes()
        return min(asked_bytes, self._config.fetch_max_bytes, max(SCARCE_BYTES, spare))

    def partition(self, wanted: Wanted, by_id: bool) -> Partition:
        if by_id:
            return self._partitions.get_by_id(wanted.topic_id, wanted.index)
        return self._partitions.get(wanted.topic, wanted.index)


class Fetch:
    """One request, from the partitions it names to its answer."""

    __slots__ = ("_by_id", "_fetcher", "_plan", "_request")

    def __init__(self, fetcher: Fetcher, request: FetchRequest, plan: FetchPlan, *, by_id: bool) -> None:
        self._fetcher = fetcher
        self._request = request
        self._plan = plan
        self._by_id = by_id

    @property
    def request(self) -> FetchRequest:
        return self._request

    def partitions(self) -> list[Partition]:
        return [self._fetcher.partition(wanted, self._by_id) for wanted in self._plan.wanted]

    def read(self) -> Reading:
        reading = Reading(found=[])
        left_bytes = self._fetcher.budget(self._request.max_bytes)
        for wanted in self._plan.wanted:
            try:
                data = self._read_one(wanted, left_bytes, first=reading.size_bytes == 0)
            except BrokerError as error:
                data = _refused(wanted.index, error.code)
                reading.failed = True
            except CorruptBatchError:
                data = _refused(wanted.index, ErrorCode.CORRUPT_MESSAGE)
                reading.failed = True
            size = len(data.records) if data.records else 0
            reading.size_bytes += size
            left_bytes -= size
            reading.found.append((wanted, data))
        return reading

    def _read_one(self, wanted: Wanted, left_bytes: int, *, first: bool) -> PartitionData:
        partition = self._fetcher.partition(wanted, self._by_id)
        partition.check_epoch(wanted.current_leader_epoch)
        read_committed = self._request.isolation_level == READ_COMMITTED
        upto = partition.readable_upto(read_committed)
        log = partition.log
        offset = wanted.fetch_offset
        if not log.start_offset <= offset <= log.end_offset:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        records: Any = b""
        aborted = None
        max_bytes = min(wanted.max_bytes, left_bytes)
        if offset < upto and (first or max_bytes > 0):
            records = log.read(offset, max_bytes, upto_offset=upto, min_one_batch=first)
            if read_committed:
                aborted = [
                    AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
                    for entry in log.aborted_transactions(offset, upto)
                ]
        return PartitionData(
            partition_index=wanted.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted if not read_committed or aborted is not None else [],
            records=records,
        )

    def answer(self, reading: Reading) -> FetchResponse:
        found = reading.found
        session = self._plan.session
        if session is not None:
            found = _news(found, all_of_them=not self._plan.incremental)
            session.served((w.topic, w.topic_id, w.index) for w, data in found if data.records)
        topics: dict[tuple[str, bytes], list[PartitionData]] = {}
        for wanted, data in found:
            topics.setdefault((wanted.topic, wanted.topic_id), []).append(data)
        return FetchResponse(
            session_id=self._plan.session_id,
            responses=[
                FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)
                for (topic, topic_id), partitions in topics.items()
            ],
        )


class Waiting:
    """A fetch that waits for enough bytes, or for its time to be up."""

    __slots__ = ("_deadline", "_fetch", "_missing_bytes", "_partitions", "deferred")

    def __init__(self, fetch: Fetch, reading: Reading, timers: Timers) -> None:
        self.deferred: Deferred[FetchResponse] = Deferred()
        self.deferred.on_abandon = self._leave
        self._fetch = fetch
        self._missing_bytes = fetch.request.min_bytes - reading.size_bytes
        self._partitions = fetch.partitions()
        for partition in self._partitions:
            partition.waiters.add(self)
        self._deadline: Deadline = timers.after_ms(fetch.request.max_wait_ms, self._finish)

    def more(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._finish()

    def gone(self) -> None:
        self._finish()

    def _finish(self) -> None:
        if self.deferred.done:
            return
        self._leave()
        self.deferred.complete(self._fetch.answer(self._fetch.read()))

    def _leave(self) -> None:
        self._deadline.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self)


def _refused(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )


def _news(found: list[tuple[Wanted, PartitionData]], *, all_of_them: bool) -> list[tuple[Wanted, PartitionData]]:
    """The partitions of which a session has something new to tell; remembers that it was told."""
    news = []
    for wanted, data in found:
        if (
            all_of_them
            or data.records
            or data.error_code
            or data.high_watermark != wanted.told_high_watermark
            or data.log_start_offset != wanted.told_log_start_offset
        ):
            wanted.told_high_watermark = -1 if data.error_code else data.high_watermark
            wanted.told_log_start_offset = data.log_start_offset
            news.append((wanted, data))
    return news

"""Fetch sessions (KIP-227): a reader names its partitions once, then only what changes.

A session remembers what the client asks for and what it was last told; an incremental answer holds only partitions
with something new. The cache is bounded: when it is full, a new session takes the place of the one that was idle
longest, and if none was idle long enough the reader goes without a session, which costs bandwidth but never
correctness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ErrorCode
from ottla.values import value

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest
    from ottla.types import TopicId

SESSIONLESS = 0
"""The session id that stands for none."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

Key = tuple[str, "TopicId", int]
"""Topic name ('' when the request names topics by id), topic id, partition."""


@dataclass(slots=True)
class Wanted:
    """What a reader wants of one partition, and what it was last told of it."""

    topic: str
    topic_id: TopicId
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def update(self, partition: FetchPartition) -> None:
        self.fetch_offset = partition.fetch_offset
        self.max_bytes = partition.partition_max_bytes
        self.current_leader_epoch = partition.current_leader_epoch
        self.last_fetched_epoch = partition.last_fetched_epoch


class Session:
    """The partitions of one reader, in the order in which they are served.

    The order turns: partitions that were served move to the end, so that a busy partition can't starve the others when
    an answer's size limit cuts it short.
    """

    __slots__ = ("epoch", "id", "last_used_ms", "wanted")

    def __init__(self, session_id: int, wanted: dict[Key, Wanted], now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.wanted = wanted
        self.last_used_ms = now_ms

    def update(self, request: FetchRequest) -> None:
        for key, partition in _named(request):
            known = self.wanted.get(key)
            if known is None:
                self.wanted[key] = _wanted(key, partition)
            else:
                known.update(partition)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.wanted.pop((topic.topic, topic.topic_id, index), None)

    def served(self, keys: Iterable[Key]) -> None:
        for key in keys:
            wanted = self.wanted.pop(key, None)
            if wanted is not None:
                self.wanted[key] = wanted


@value
class FetchPlan:
    """What one request comes to: what to read, and how to answer."""

    session: Session | None
    wanted: Iterable[Wanted]
    incremental: bool

    @property
    def session_id(self) -> int:
        return SESSIONLESS if self.session is None else self.session.id


class FetchSessions:
    def __init__(self, *, slots_max: int, evict_after_ms: int, new_id: Callable[[], int]) -> None:
        self._slots_max = slots_max
        self._evict_after_ms = evict_after_ms
        self._new_id = new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        """The one used longest ago comes first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, now_ms: int) -> FetchPlan:
        """Raises FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH: the client then starts a new session."""
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return FetchPlan(session=None, wanted=_all(request), incremental=False)
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return self._start(request, now_ms)
        return self._go_on(request, now_ms)

    def _start(self, request: FetchRequest, now_ms: int) -> FetchPlan:
        wanted = {key: _wanted(key, partition) for key, partition in _named(request)}
        session = self._open(wanted, now_ms)
        return FetchPlan(session=session, wanted=tuple(wanted.values()), incremental=False)

    def _open(self, wanted: dict[Key, Wanted], now_ms: int) -> Session | None:
        if len(self._sessions) >= self._slots_max and not self._evict(now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == SESSIONLESS:
            session_id = self._new_id()
        session = self._sessions[session_id] = Session(session_id, wanted, now_ms)
        return session

    def _evict(self, now_ms: int) -> bool:
        session_id, oldest = next(iter(self._sessions.items()))
        if now_ms - oldest.last_used_ms < self._evict_after_ms:
            return False
        del self._sessions[session_id]
        return True

    def _go_on(self, request: FetchRequest, now_ms: int) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.id)
        session.update(request)
        return FetchPlan(session=session, wanted=tuple(session.wanted.values()), incremental=True)


def _named(request: FetchRequest) -> Iterator[tuple[Key, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.topic, topic.topic_id, partition.partition), partition


def _all(request: FetchRequest) -> Iterable[Wanted]:
    return [_wanted(key, partition) for key, partition in _named(request)]


def _wanted(key: Key, partition: FetchPartition) -> Wanted:
    topic, topic_id, index = key
    return Wanted(
        topic=topic,
        topic_id=topic_id,
        index=index,
        fetch_offset=partition.fetch_offset,
        max_bytes=partition.partition_max_bytes,
        current_leader_epoch=partition.current_leader_epoch,
        last_fetched_epoch=partition.last_fetched_epoch,
    )

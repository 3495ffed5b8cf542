"""Fetches of followers, answered by the leader: when there is something to tell, and not before.

New records are told as soon as a commit has made them durable, to every follower that waits, in one answer for all
partitions of that commit; a small share of one partition as soon as it is written, while it is synced. A high watermark
that has moved is told along with the next records, or a little later if none come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.one_fetch import write_answer
from ottla.replication.catch_up import NO_LIMIT, CatchUpLimit
from ottla.replication.fetch_sessions import EPOCH_MAX, FINAL_EPOCH, INITIAL_EPOCH
from ottla.replication.replica_sessions import Find, OnCaughtUp, ReplicaSession
from ottla.runtime.beats import last_beat_ms
from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.ports import Clock
    from ottla.protocol.messages.fetch import FetchRequest
    from ottla.replication.partition import Partition
    from ottla.runtime.outbox import Outbox
    from ottla.runtime.timers import Deadline, Timers
    from ottla.storage.pending import PendingWrite

NEWS_MS = 100
"""How long a follower is not told of a high watermark, in case that records come. If its leader dies meanwhile, readers
may have to wait for what they could have read before, until the new leader has heard from its followers."""
BEAT_MS = 200
ALLOWANCE_MS = 20
"""After which followers that are behind may be sent more, where that is limited."""


class ReplicaFetches:
    def __init__(
        self,
        *,
        find: Find,
        on_caught_up: OnCaughtUp,
        clock: Clock,
        timers: Timers,
        outbox: Outbox,
        new_session_id: Callable[[], int],
        catch_up_bytes_per_s: int = NO_LIMIT,
    ) -> None:
        self._find = find
        self._on_caught_up = on_caught_up
        self._clock = clock
        self._timers = timers
        self._outbox = outbox
        self._new_session_id = new_session_id
        self._catch_up = CatchUpLimit(catch_up_bytes_per_s)
        self._sessions: dict[int, ReplicaSession] = {}
        """By node id: a follower has one."""
        self._waiting: dict[ReplicaSession, Waiting] = {}
        self._urgent: dict[ReplicaSession, None] = {}
        self._due: dict[ReplicaSession, int] = {}
        """Sessions with news that can wait, and until when."""
        self._alarm: Deadline | None = None

    def fetch(self, request: FetchRequest, replica_id: int, replica_epoch: int) -> Deferred[FetchResponse]:
        """Raises FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH: the follower then starts a new session."""
        session, is_new = self._session(request, replica_id, replica_epoch)
        self._end_wait(session)
        # It may be what many producers wait for.
        self._outbox.around(session.hear, request, self._find, self._on_caught_up, self._clock.monotonic_ms())
        return self._wait(session, request.max_bytes, 0 if is_new else request.max_wait_ms, is_short=False)

    def fetch_one(self, asked: tuple[Any, ...]) -> Deferred[Any] | None:
        """The same for one partition of a session that is known, as `one_fetch.read_request` returns it."""
        (
            wait_ms, max_bytes, session_id, session_epoch, topic_id, index, leader_epoch, offset, last_epoch, _,
            place_bytes, replica_id, replica_epoch,
        ) = asked  # fmt: skip
        session = self._sessions.get(replica_id)
        if session is None or session.id != session_id or session.replica_epoch != replica_epoch:
            return None
        place = session.places.get((topic_id, index))
        if place is None or session_epoch != session.epoch:
            return None
        session.epoch = 1 if session_epoch == EPOCH_MAX else session_epoch + 1
        self._end_wait(session)
        place.is_at(offset, leader_epoch, last_epoch, place_bytes)
        self._outbox.around(session.hear_one, place, self._find, self._on_caught_up, self._clock.monotonic_ms())
        return self._wait(session, max_bytes, wait_ms, is_short=True)

    def _end_wait(self, session: ReplicaSession) -> None:
        """Whoever sends the next fetch does not want to wait for the last one."""
        waiting = self._waiting.get(session)
        if waiting is not None:
            waiting.finish()

    def _wait(self, session: ReplicaSession, max_bytes: int, wait_ms: int, *, is_short: bool) -> Deferred[Any]:
        waiting = self._waiting[session] = Waiting(self, session, max_bytes, is_short)
        if session.news and session not in self._due:  # left by `send_written`, and due while nobody waited
            self._tell_within(session, NEWS_MS)
        if session.is_urgent or wait_ms <= 0:
            waiting.finish()
        else:
            waiting.deadline = self._timers.after_ms(self._until_beat_ms(wait_ms), waiting.finish)
        return waiting.deferred

    def _until_beat_ms(self, wait_ms: int) -> int:
        """A long wait ends on a beat (`beats`), a little early: where nothing is written, that is all that happens."""
        if wait_ms < 2 * BEAT_MS:
            return wait_ms
        now_ms = self._clock.monotonic_ms()
        return last_beat_ms(now_ms + wait_ms, BEAT_MS) - now_ms

    def flush(self) -> None:
        """A commit is done, or the metadata has changed: answer those who wait for what it brought."""
        if self._urgent:
            urgent, self._urgent = self._urgent, {}
            for session in urgent:
                waiting = self._waiting.get(session)
                if waiting is not None and session.is_urgent:
                    waiting.finish()

    def send_written(self, partition: Partition, share: PendingWrite) -> None:
        """Send the followers that wait what is written here and not synced: they sync it at the same time.

        Only to those in sync that have all before it and that nothing else is urgent for. If the sync fails, this node
        writes nothing any more, so that no other record of this epoch can take the place of this one.
        """
        for session, waiting in tuple(self._waiting.items()):
            place = session.places.get((partition.topic_id, partition.index))
            if place is not None and waiting.is_short:
                one = session.answer_written(place, share, waiting.max_bytes, self._clock.monotonic_ms())
                if one is not None:
                    del self._waiting[session]
                    waiting.complete(write_answer(one))

    def _session(self, request: FetchRequest, replica_id: int, replica_epoch: int) -> tuple[ReplicaSession, bool]:
        session = self._sessions.get(replica_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._end(session)
            session = self._sessions[replica_id] = ReplicaSession(
                self._new_session_id(),
                replica_id,
                replica_epoch,
                on_urgent=self._note_urgent,
                on_news=self._has_news,
                on_allowance=self._is_at_limit,
                catch_up=self._catch_up,
            )
            return session, True
        if session is None or session.id != request.session_id or session.replica_epoch != replica_epoch:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        return session, False

    def _end(self, session: ReplicaSession) -> None:
        self._end_wait(session)
        session.close()
        self._due.pop(session, None)

    def _note_urgent(self, session: ReplicaSession) -> None:
        self._urgent[session] = None

    def _has_news(self, session: ReplicaSession) -> None:
        if session not in self._due:
            self._tell_within(session, NEWS_MS)

    def _is_at_limit(self, session: ReplicaSession) -> None:
        self._tell_within(session, ALLOWANCE_MS)

    def _tell_within(self, session: ReplicaSession, delay_ms: int) -> None:
        self._due[session] = self._clock.monotonic_ms() + delay_ms
        if self._alarm is None:
            self._alarm = self._timers.after_ms(delay_ms, self._tell_due)

    def _tell_due(self) -> None:
        self._alarm = None
        now_ms = self._clock.monotonic_ms()
        for session in [session for session, due_ms in self._due.items() if due_ms <= now_ms]:
            del self._due[session]
            waiting = self._waiting.get(session)
            if waiting is not None and session.news:
                waiting.finish()
        if self._due and self._alarm is None:
            delay_ms = max(1, min(self._due.values()) - now_ms)
            self._alarm = self._timers.after_ms(delay_ms, self._tell_due)

    def answer(self, session: ReplicaSession, max_bytes: int, *, is_short: bool) -> FetchResponse | bytes:
        """Encoded, if that may be and there is news of one partition only."""
        self._waiting.pop(session, None)
        self._due.pop(session, None)
        now_ms = self._clock.monotonic_ms()
        one = session.answer_one(max_bytes, now_ms) if is_short else None
        if one is not None:
            return write_answer(one)
        return FetchResponse(session_id=session.id, responses=session.answer(max_bytes, self._find, now_ms))

    def left(self, session: ReplicaSession, waiting: Waiting) -> None:
        """Nobody waits for this answer any more."""
        if self._waiting.get(session) is waiting:
            del self._waiting[session]


class Waiting:
    """A follower's fetch that waits for news, or for its time to be up."""

    __slots__ = ("_fetches", "_session", "deadline", "deferred", "is_short", "max_bytes")

    def __init__(self, fetches: ReplicaFetches, session: ReplicaSession, max_bytes: int, is_short: bool) -> None:
        self.deferred: Deferred[Any] = Deferred()
        self.deferred.on_abandon = self._abandoned
        self.deadline: Deadline | None = None
        self._fetches = fetches
        self._session = session
        self.max_bytes = max_bytes
        self.is_short = is_short

    def finish(self) -> None:
        if not self.deferred.done:
            self.complete(self._fetches.answer(self._session, self.max_bytes, is_short=self.is_short))

    def complete(self, answer: FetchResponse | bytes) -> None:
        self._cancel()
        self.deferred.complete(answer)

    def _abandoned(self) -> None:
        self._cancel()
        self._fetches.left(self._session, self)

    def _cancel(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()

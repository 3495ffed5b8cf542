"""Which brokers the controller has heard from, and until when that counts.

Soft state of the active controller, lost with it: a new one gives every broker time to find it. Nothing that must not
be lost depends on these times. A broker that is silent but alive is fenced by epochs, not by a clock; being wrong about
one costs an election.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.config import BrokerConfig

UNHEARD_LEASE_SHARE = 4
"""A new controller waits a quarter of a lease for a broker that gossip takes for dead: those that live hurry to it."""


@dataclass(slots=True)
class Session:
    contact_ms: int
    heard: bool
    """Whether this controller itself has heard from the broker."""
    metadata_offset: int = -1
    """The last offset of the metadata log that the broker has applied."""
    registered_offset: int = -1
    """Where its registration is in the metadata log; for one from before this controller's time, where that began."""
    shutdown_offset: int | None = None
    """Where it is written that its leaders have moved away, once it wants to stop."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the broker knows of its own registration, and of all that was there before."""
        return self.metadata_offset >= self.registered_offset


class Sessions:
    def __init__(self, config: BrokerConfig) -> None:
        cluster = config.cluster
        self._session_ms = cluster.broker_session_timeout_ms
        self._lease_ms = min(cluster.broker_lease_ms, self._session_ms)
        self._look_interval_ms = min(cluster.broker_heartbeat_interval_ms, self._lease_ms)
        self._absence_ms = max(self._lease_ms, 2 * self._look_interval_ms)
        self._sessions: dict[int, Session] = {}
        self._suspected: frozenset[int] = frozenset()
        self._ended: set[int] = set()
        self._looked_ms = 0
        self._began_offset = -1

    def begin(self, broker_ids: Iterable[int], now_ms: int, offset: int) -> None:
        """This controller has just begun, with a metadata log up to `offset`: these brokers should be heard from."""
        self._looked_ms = now_ms
        self._began_offset = offset
        for broker_id in broker_ids:
            self._sessions[broker_id] = Session(now_ms, heard=False, registered_offset=offset)

    def registered(self, broker_id: int, now_ms: int, offset: int) -> None:
        """A broker has started: its registration is at `offset` of the metadata log."""
        self._note_looking(now_ms)
        self._ended.discard(broker_id)
        self._sessions[broker_id] = Session(now_ms, heard=True, registered_offset=offset)

    def heard(self, broker_id: int, now_ms: int, metadata_offset: int) -> Session:
        self._note_looking(now_ms)
        self._ended.discard(broker_id)
        before = Session(now_ms, heard=True, registered_offset=self._began_offset)
        session = self._sessions.setdefault(broker_id, before)
        session.contact_ms, session.heard, session.metadata_offset = now_ms, True, metadata_offset
        return session

    def _note_looking(self, now_ms: int) -> None:
        """Without sessions nobody looks; so with the first one, it begins."""
        if not self._sessions:
            self._looked_ms = now_ms

    def end(self, broker_id: int) -> None:
        """Nothing is expected of a broker any more."""
        self._sessions.pop(broker_id, None)

    def suspect(self, dead: Iterable[int], ended: Iterable[int] = ()) -> None:
        """Gossip takes these for dead, and no others; the processes of some have ended, as this node has seen: they are
        not waited for, unless they speak after that."""
        self._suspected = frozenset(dead)
        self._ended = set(ended)

    def is_open(self, broker_id: int, now_ms: int) -> bool:
        """Whether a broker is taken for alive."""
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < self._ends_ms(broker_id, session)

    def lapsed(self, now_ms: int) -> list[int]:
        """Brokers that should have been heard from."""
        self._pardon_own_absence(now_ms)
        self._looked_ms = now_ms
        return [id_ for id_, session in sorted(self._sessions.items()) if now_ms >= self._ends_ms(id_, session)]

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far the slowest of these has applied the metadata log; None without any."""
        offsets = (self._sessions[id_].metadata_offset if id_ in self._sessions else -1 for id_ in broker_ids)
        return min(offsets, default=None)

    def next_look_ms(self) -> int | None:
        """When to look for lapsed sessions. Often, so that it is known when nobody looked."""
        if not self._sessions:
            return None
        first_end_ms = min(self._ends_ms(id_, session) for id_, session in self._sessions.items())
        return min(self._looked_ms + self._look_interval_ms, first_end_ms)

    def _pardon_own_absence(self, now_ms: int) -> None:
        """Who has not looked for so long did not run, and can't tell who was silent meanwhile."""
        if now_ms - self._looked_ms >= self._absence_ms:
            for session in self._sessions.values():
                session.contact_ms = now_ms

    def _ends_ms(self, broker_id: int, session: Session) -> int:
        if broker_id in self._ended:
            return session.contact_ms
        if broker_id not in self._suspected:
            return session.contact_ms + self._session_ms
        if session.heard:
            return session.contact_ms + self._lease_ms
        return session.contact_ms + self._lease_ms // UNHEARD_LEASE_SHARE

"""What a leader knows of one other node's log, and how it sends to it.

PROBE      where the two logs agree is not known: one message at a time, until one is accepted
REPLICATE  they agree: entries are sent as they come, before earlier ones are acknowledged, within a window
SNAPSHOT   what the node needs is no longer in the log: nothing is sent until it has its snapshot
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from ottla.errors import invariant
from ottla.raft.settings import RaftSettings


class Pace(Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    __slots__ = (
        "_inflight",
        "_overdue_index",
        "_settings",
        "commit_sent",
        "inflight_bytes",
        "is_active",
        "match",
        "must_ask",
        "next",
        "pace",
        "round_acked",
        "snapshot_ticks",
        "ticks_since_caught_up",
        "ticks_since_heard",
    )

    def __init__(self, settings: RaftSettings, *, next_index: int) -> None:
        self._settings = settings
        self.match = 0
        """The node has the leader's log on disk up to here."""
        self.next = next_index
        """The first entry that it has not been sent."""
        self.pace = Pace.PROBE
        self.must_ask = True
        """A message is due even if it carries no news: the first probe, or one to find out what got lost."""
        self._inflight: deque[tuple[int, int]] = deque()
        self.inflight_bytes = 0
        self.commit_sent = 0
        self.round_acked = 0
        self.is_active = False
        """It was heard from since the leader last counted."""
        self.ticks_since_heard = 0
        self.ticks_since_caught_up: int | None = None
        """None: it never had everything."""
        self.snapshot_ticks = 0
        self._overdue_index = 0

    # Sending

    @property
    def may_send_entries(self) -> bool:
        if self.pace is Pace.PROBE:
            return self.must_ask
        if self.pace is Pace.SNAPSHOT:
            return False
        full = (
            len(self._inflight) >= self._settings.inflight_messages_max
            or self.inflight_bytes >= self._settings.inflight_bytes_max
        )
        return not full

    def sent(self, last_index: int, size_bytes: int, commit: int) -> None:
        """A message went out whose last entry, or the one before its entries, is `last_index`."""
        invariant(self.pace is not Pace.SNAPSHOT, "entries are sent to a node that waits for a snapshot")
        self.must_ask = False
        self.commit_sent = max(self.commit_sent, min(commit, last_index))
        if self.pace is Pace.REPLICATE and last_index >= self.next:
            self.next = last_index + 1
            self._inflight.append((last_index, size_bytes))
            self.inflight_bytes += size_bytes

    def sent_snapshot(self) -> None:
        self._enter(Pace.SNAPSHOT)
        self.must_ask = False
        self.snapshot_ticks = 0

    # Hearing

    def heard(self) -> None:
        self.is_active = True
        self.ticks_since_heard = 0

    def acknowledged(self, index: int, *, base_index: int) -> None:
        """It has everything up to `index`. The leader's own log begins after `base_index`."""
        if index > self.match:
            self.match = index
        self.next = max(self.next, self.match + 1)
        while self._inflight and self._inflight[0][0] <= index:
            self.inflight_bytes -= self._inflight.popleft()[1]
        if self.pace is Pace.PROBE or (self.pace is Pace.SNAPSHOT and self.match >= base_index):
            self._enter(Pace.REPLICATE)
            self.next = self.match + 1

    def rejected(self, rejected_index: int, agreeable_index: int) -> None:
        """It has no such entry as was sent before `rejected_index + 1`; the logs agree at `agreeable_index` at best."""
        if self.pace is Pace.REPLICATE:
            if rejected_index > self.match:
                self.probe()
        elif self.pace is Pace.PROBE and rejected_index == self.next - 1:
            self.next = max(min(rejected_index, agreeable_index + 1), self.match + 1)
            self.must_ask = True

    def sent_heartbeat(self) -> None:
        self._overdue_index = self.next - 1

    def replied_to_heartbeat(self, round_number: int) -> None:
        """A sign of life, and a moment to doubt: what was sent before the heartbeat, and is not acknowledged although
        the heartbeat is, may be lost."""
        self.round_acked = max(self.round_acked, round_number)
        if self.pace is Pace.PROBE or (self.pace is Pace.REPLICATE and self.match < self._overdue_index):
            self.must_ask = True

    def probe(self) -> None:
        """Find out anew where the logs agree."""
        self._enter(Pace.PROBE)
        self.next = self.match + 1
        self.must_ask = True

    def forget(self, next_index: int) -> None:
        """The node may have begun anew. Only for one whose acknowledgements count for nothing."""
        self.match = 0
        self.probe()
        self.next = next_index

    def _enter(self, pace: Pace) -> None:
        self.pace = pace
        self._inflight.clear()
        self.inflight_bytes = 0
        self.commit_sent = min(self.commit_sent, self.match)

    # Time

    def tick(self, goal_index: int) -> None:
        """`goal_index`: what the node must have to be called caught up."""
        self.ticks_since_heard += 1
        if self.match >= goal_index:
            self.ticks_since_caught_up = 0
        elif self.ticks_since_caught_up is not None:
            self.ticks_since_caught_up += 1
        if self.pace is Pace.SNAPSHOT:
            self.snapshot_ticks += 1
            if self.snapshot_ticks >= self._settings.snapshot_ticks:
                self.probe()

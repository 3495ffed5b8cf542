"""A follower of one partition, as its leader knows it: how far it has come, and when it last had everything.

When it last had everything is what decides whether it is in sync. A follower that fetches from the end of the log has
everything now. One that fetches from where the log ended when it was last sent something had everything then. And one
that was at the end, and whose session goes on without naming the partition, has had everything all along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

UNKNOWN = -1


class Place(Protocol):
    """A follower's place in its fetch session, through which it is told what is new."""

    @property
    def last_request_ms(self) -> int:
        """When the session was last used."""

    def has_data(self) -> None:
        """There are records that it does not have: tell it as soon as it waits."""

    def has_news(self) -> None:
        """Something else has changed: tell it along with what comes next."""

    def lost(self) -> None:
        """The partition is no longer led here."""


class Follower:
    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "is_joining",
        "partition",
        "place",
        "replica_id",
        "sent_end_offset",
        "sent_ms",
    )

    def __init__(self, partition: Partition, replica_id: int, now_ms: int) -> None:
        self.partition = partition
        self.replica_id = replica_id
        self.broker_epoch = UNKNOWN
        self.end_offset = UNKNOWN
        """What it has on disk, by its last fetch; unknown until it has fetched from this leader."""
        self.caught_up_ms = now_ms
        """When it last had everything. It is given the time that any follower has, from the beginning on."""
        self.sent_ms = now_ms
        self.sent_end_offset = UNKNOWN
        """Where the log ended when records were last sent to it."""
        self.is_joining = False
        """Not in sync, but so near that the high watermark waits for it: else it might never get there."""
        self.place: Place | None = None

    def fetched(self, broker_epoch: int, offset: int, now_ms: int) -> None:
        """It asks for what comes from `offset` on, so it has on disk what is below."""
        if broker_epoch != self.broker_epoch:
            if broker_epoch < self.broker_epoch:
                raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a request of an earlier life of the follower")
            self.broker_epoch = broker_epoch
            self.sent_end_offset = UNKNOWN
        if offset >= self.partition.log.durable_offset:
            self.caught_up_ms = now_ms
        elif offset >= self.sent_end_offset > UNKNOWN and self.sent_ms > self.caught_up_ms:
            self.caught_up_ms = self.sent_ms
        self.end_offset = offset

    def diverged(self) -> None:
        """Its log is another one than ours: what it has does not count until it has cut that off."""
        self.end_offset = UNKNOWN

    def sent(self, end_offset: int, now_ms: int) -> None:
        self.sent_end_offset = end_offset
        self.sent_ms = now_ms

    def appended(self) -> None:
        """There is more on the leader's disk."""
        if self.place is not None:
            self.place.has_data()

    def was_caught_up_until(self, request_ms: int) -> None:
        """It was at the end of the log, by a session that was in use at that time."""
        if request_ms > self.caught_up_ms:
            self.caught_up_ms = request_ms

    def lags(self, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has been without something for so long that nobody should wait for it."""
        self._note_idle()
        return now_ms - self.caught_up_ms > lag_max_ms

    def leave(self) -> None:
        """Its session has ended."""
        self._note_idle()
        self.place = None

    def _note_idle(self) -> None:
        if self.place is not None and self.end_offset >= self.partition.log.durable_offset:
            self.was_caught_up_until(self.place.last_request_ms)

"""A partition that this node copies from its leader, and what to do with what the leader says.

A follower's log is made to agree with its leader's before anything is added to it. Each fetch says where the log ends
and in which epoch its last record was written; a leader whose log disagrees answers with the last point at which it may
agree, and the follower cuts its log there and asks again. So nothing is ever appended behind a record that the leader
does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import ErrorCode
from ottla.replication.readable import NO_EPOCH, Readable

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import PartitionData
    from ottla.storage.log import Log
    from ottla.types import TopicId


@dataclass(frozen=True, slots=True)
class Append:
    """Add the records of the answer."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at `offset`, for good, before the next fetch."""

    offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Empty the log, which goes on at `offset`: the leader has nothing older."""

    offset: int


class Wait(Enum):
    """Fetch nothing of this partition for a while."""

    BRIEFLY = auto()
    """The two sides know different metadata: one of them will learn."""


Decision: TypeAlias = Append | Truncate | Restart | Wait
APPEND = Append()


class Replica(Readable):
    """A partition that this node follows, in one leader epoch: the next epoch has another object."""

    __slots__ = ("has_ended", "is_busy", "leader_high_watermark", "leader_id", "refusals")

    def __init__(
        self,
        *,
        topic: str,
        topic_id: TopicId,
        index: int,
        leader_epoch: int,
        leader_id: int,
        log: Log,
        high_watermark: int,
    ) -> None:
        super().__init__(
            topic=topic,
            topic_id=topic_id,
            index=index,
            leader_epoch=leader_epoch,
            log=log,
            high_watermark=min(max(high_watermark, log.start_offset), log.end_offset),
        )
        self.leader_id = leader_id
        self.leader_high_watermark = self.high_watermark
        self.is_busy = True
        """Its log is being changed: it is not fetched until that is on disk."""
        self.refusals = 0
        """How often in a row the leader would not have it."""
        self.has_ended = False

    @property
    def is_led_here(self) -> bool:
        return False

    @property
    def last_epoch(self) -> int:
        """In which epoch the last record of the log was written."""
        return self.log.leader_epochs.latest

    def on_durable(self, size_bytes: int) -> None:
        """A commit has covered `size_bytes` more of the log."""
        self._advance(size_bytes)

    def on_failed(self, _error: object) -> None:
        """A commit failed: the log is back at what is durable, from where it is fetched again."""

    def heard(self, high_watermark: int) -> None:
        """What the leader says is committed. It may be beyond what is here."""
        if high_watermark > self.leader_high_watermark:
            self.leader_high_watermark = high_watermark
            self._advance(1)

    def _advance(self, size_bytes: int) -> None:
        offset = min(self.leader_high_watermark, self.log.durable_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.waiters:
                self._wake(size_bytes)

    def cut(self, offset: int) -> None:
        """The log ends at `offset` now. Where that is below the high watermark the leader was elected uncleanly."""
        self.high_watermark = min(self.high_watermark, offset)
        self.leader_high_watermark = min(self.leader_high_watermark, offset)

    def end(self) -> None:
        """It is followed no longer, or not in this epoch."""
        self.has_ended = True
        self._dismiss()


def decide(log: Log, answer: PartitionData) -> Decision:
    """What follows from a leader's answer to a fetch from the end of `log`.

    A log begins anew where the leader's does if the leader has let go of what comes next, or if nothing is in it that
    could disagree.
    """
    code = answer.error_code
    if code == ErrorCode.NONE:
        diverging = answer.diverging_epoch
        if diverging.epoch == NO_EPOCH:
            return APPEND
        return Truncate(truncation_offset(log, diverging.epoch, diverging.end_offset))
    leader_start, is_empty = answer.log_start_offset, log.start_offset == log.end_offset
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and leader_start >= 0 and (is_empty or leader_start > log.end_offset):
        return Restart(leader_start)
    return Wait.BRIEFLY


def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
    """Where to cut a log whose leader knows it to disagree beyond the end of `leader_epoch`, as the leader has it.

    What we have of that epoch, or of the last one before it, may be shorter still: then we part there.
    """
    own_epoch, own_end_offset = log.end_offset_for_epoch(leader_epoch)
    if own_epoch == NO_EPOCH:
        return leader_end_offset
    return min(own_end_offset, leader_end_offset)

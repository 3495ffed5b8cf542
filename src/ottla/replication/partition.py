"""One partition as its leader sees it: the log, the epoch it leads in, and how far readers may read."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.errors import BrokerError, ErrorCode, invariant

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.types import TopicId

NO_EPOCH = -1
NO_OFFSET = -1

OnCommitted: TypeAlias = "Callable[[BrokerError | None], None]"
"""Told that an offset is committed, or why it will not be here."""


class Waiter(Protocol):
    """Somebody who waits for records of a partition."""

    def more(self, partition: Partition, size_bytes: int) -> None:
        """That many bytes of the partition have become readable."""

    def gone(self, partition: Partition) -> None:
        """There will be no more: the partition is no longer led here."""


class Partition:
    """A partition that this node leads.

    The high watermark follows what is durable on every in-sync replica: with this node alone, what its own commits have
    made durable.
    """

    __slots__ = (
        "_commits",
        "high_watermark",
        "in_sync_replicas",
        "index",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(self, *, topic: str, topic_id: TopicId, index: int, leader_epoch: int, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.in_sync_replicas = 1
        """How many replicas have all that is committed, this one included."""
        self.high_watermark = log.durable_offset
        self.waiters: dict[Waiter, None] = {}
        """In the order in which they came: they are served in it."""
        self._commits: deque[tuple[int, OnCommitted]] = deque()
        """Who waits for which high watermark, the lowest first."""

    def on_durable(self, size_bytes: int) -> None:
        """A commit has covered `size_bytes` more of the log: let readers see them."""
        durable = self.log.durable_offset
        invariant(durable >= self.high_watermark, f"{self.topic}-{self.index}: the high watermark would go back")
        if durable > self.high_watermark:
            self.high_watermark = durable
            if self.waiters:
                for waiter in tuple(self.waiters):
                    waiter.more(self, size_bytes)
            if self._commits:
                self._tell_committed()

    def on_failed(self, error: BrokerError) -> None:
        """A commit failed, and the log is back at what is durable: what was appended since will not be committed."""
        self._refuse_above(self.log.end_offset, error)

    def when_committed(self, offset: int, done: OnCommitted) -> None:
        """Call `done` once everything below `offset` is committed: at once if it is.

        With NOT_LEADER_OR_FOLLOWER if leadership ends before that, for then nobody here can know.
        """
        if self.high_watermark >= offset:
            done(None)
        elif not self._commits or self._commits[-1][0] <= offset:
            self._commits.append((offset, done))
        else:
            insort(self._commits, (offset, done), key=itemgetter(0))

    def end(self) -> None:
        """This node leads the partition no longer: nobody waits for it here any more."""
        self._refuse_above(NO_OFFSET, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        for waiter in tuple(self.waiters):
            waiter.gone(self)

    def _tell_committed(self) -> None:
        commits, high_watermark = self._commits, self.high_watermark
        while commits and commits[0][0] <= high_watermark:
            commits.popleft()[1](None)

    def _refuse_above(self, offset: int, error: BrokerError) -> None:
        refused = [done for wanted, done in self._commits if wanted > offset]
        self._commits = deque(waiting for waiting in self._commits if waiting[0] <= offset)
        for done in refused:
            done(error)

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed reader must stop: at the first open transaction."""
        return self.log.stable_offset(self.high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a reader that knows another leader than this one."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

"""One partition as its leader sees it: the log, the epoch it leads in, and how far readers may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.errors import BrokerError, ErrorCode, invariant

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.types import TopicId

NO_EPOCH = -1


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

    __slots__ = ("high_watermark", "in_sync_replicas", "index", "leader_epoch", "log", "topic", "topic_id", "waiters")

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

    def on_durable(self, size_bytes: int) -> None:
        """A commit has covered `size_bytes` more of the log: let readers see them."""
        durable = self.log.durable_offset
        invariant(durable >= self.high_watermark, f"{self.topic}-{self.index}: the high watermark would go back")
        if durable > self.high_watermark:
            self.high_watermark = durable
            if self.waiters:
                for waiter in tuple(self.waiters):
                    waiter.more(self, size_bytes)

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

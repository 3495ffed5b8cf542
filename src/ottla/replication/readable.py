"""What a reader sees of a partition, be it led here or copied from its leader: a log, an epoch, and how far to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.types import TopicId

NO_EPOCH = -1
NO_OFFSET = -1


class Waiter(Protocol):
    """Somebody who waits for records of a partition."""

    def more(self, partition: Readable, size_bytes: int) -> None:
        """That many bytes of the partition have become readable."""

    def gone(self, partition: Readable) -> None:
        """There will be no more: the partition is no longer what it was here."""


class Readable:
    """A copy of a partition on this node."""

    __slots__ = (
        "high_watermark", "index", "leader_epoch", "log", "read_bytes", "topic", "topic_id", "waiters", "written_bytes",
    )  # fmt: skip

    def __init__(
        self, *, topic: str, topic_id: TopicId, index: int, leader_epoch: int, log: Log, high_watermark: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.high_watermark = high_watermark
        """Everything below is on the disk of every in-sync replica, and readers may see it."""
        self.waiters: dict[Waiter, None] = {}
        """In the order in which they came: they are served in it."""
        self.written_bytes = 0
        """Made durable here since this object is there."""
        self.read_bytes = 0
        """Handed to consumers in the same time."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic}-{self.index}, epoch {self.leader_epoch})"

    @property
    def is_led_here(self) -> bool:
        raise AssertionError("one of the two kinds")

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed reader must stop: at the first open transaction."""
        return self.log.stable_offset(self.high_watermark)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a reader that knows another leader than this replica does."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def on_start_moved(self) -> None:
        """Records at the beginning were deleted."""

    def _wake(self, size_bytes: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.more(self, size_bytes)

    def _dismiss(self) -> None:
        for waiter in tuple(self.waiters):
            waiter.gone(self)

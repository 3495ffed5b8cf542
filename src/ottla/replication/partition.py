"""One partition as its leader sees it: who follows, who is in sync, and how far readers may read.

    high watermark = the least that is on the disk of the leader and of every replica that counts

Those that count are the in-sync replicas that the controller has committed, those that the leader has asked it to add,
and those that are about to be. One that was removed counts until the removal is committed: a new leader may be any
member of the committed set, so nothing may be called committed that one of them lacks. While fewer replicas are in sync
than the topic demands, the high watermark stands still: what it passed is then on enough disks to survive the election
of any replica that was in sync when it passed (KIP-966).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import BrokerError, ErrorCode, broken
from ottla.replication.followers import Follower
from ottla.replication.readable import NO_OFFSET, Readable, Waiter

if TYPE_CHECKING:
    from ottla.metadata.image import PartitionImage
    from ottla.storage.log import Log
    from ottla.types import TopicId

__all__ = ["OnCommitted", "Partition", "Waiter"]

ALONE = -1
"""The node id of a leader that has no followers."""
NOT_KNOWN_TO_LAST = "leadership ended before this was known to last"
"""Said of what was appended: unlike what was refused at once, it may be there under the next leader."""

OnCommitted: TypeAlias = "Callable[[BrokerError | None], None]"
"""Told that an offset is committed, or why it will not be here."""
NOBODY: deque[tuple[int, OnCommitted]] = deque()
"""Shared, and never added to: in most of many partitions nobody waits, and a deque is half a kilobyte."""


def _everybody(_node_id: int) -> bool:
    return True


class Partition(Readable):
    """A partition that this node leads, in one leader epoch: the next epoch has another object."""

    __slots__ = (
        "_commits",
        "_counting",
        "_hidden_bytes",
        "_is_welcome",
        "epoch_start_offset",
        "followers",
        "has_ended",
        "in_sync_replicas",
        "is_alone",
        "is_safe",
        "isr",
        "node_id",
        "partition_epoch",
        "proposed_isr",
        "replicas",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: TopicId,
        index: int,
        leader_epoch: int,
        log: Log,
        node_id: int = ALONE,
        image: PartitionImage | None = None,
        high_watermark: int = 0,
        now_ms: int = 0,
        is_welcome: Callable[[int], bool] = _everybody,
    ) -> None:
        """Without an image the leader is the only replica. `is_welcome` says of a node whether it may come in sync."""
        super().__init__(
            topic=topic,
            topic_id=topic_id,
            index=index,
            leader_epoch=leader_epoch,
            log=log,
            high_watermark=min(max(high_watermark, log.start_offset), log.durable_offset),
        )
        log.verifies_transactions = True
        self._is_welcome = is_welcome
        self.node_id = node_id
        self.epoch_start_offset = log.end_offset
        """Where this leader began to write. Until the high watermark is there, nobody knows what was committed."""
        self.followers: dict[int, Follower] = {}
        """By node id, in sync or not."""
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: tuple[int, ...] = (node_id,)
        """As the controller has committed it."""
        self.proposed_isr: tuple[int, ...] | None = None
        """What the controller was asked for, until it is known what became of that."""
        self.partition_epoch = -1
        self.in_sync_replicas = 1
        """How many replicas have all that is committed, this one included."""
        self.has_ended = False
        self.is_alone = True
        """Without followers, and leading: then what is durable here is committed."""
        self._counting: list[Follower] = []
        self.is_safe = True
        """Whether as many replicas are in sync as the topic demands."""
        self._hidden_bytes = 0
        """What is durable here and not readable yet."""
        self._commits: deque[tuple[int, OnCommitted]] = NOBODY
        """Who waits for which high watermark, the lowest first."""
        if image is not None:
            self.update(image, now_ms)
        else:
            self._advance()

    @property
    def is_led_here(self) -> bool:
        return True

    @property
    def is_settled(self) -> bool:
        """Whether it is known how far earlier leaders have committed."""
        return self.high_watermark >= self.epoch_start_offset

    # What the log does.

    def on_durable(self, size_bytes: int) -> None:
        """A commit has covered `size_bytes` more of the log."""
        if self.is_alone:
            durable, high_watermark = self.log.durable_offset, self.high_watermark
            if durable > high_watermark:
                self.high_watermark = durable
                if self.waiters:
                    self._wake(size_bytes)
                if self._commits:
                    self._tell_committed()
            elif durable < high_watermark:
                broken(f"{self.topic}-{self.index}: the high watermark would go back")
            return
        self._hidden_bytes += size_bytes
        for follower in self.followers.values():
            follower.appended()
        self._advance()

    def on_failed(self, error: BrokerError) -> None:
        """A commit failed, and the log is back at what is durable: what was appended since will not be committed."""
        self._refuse_above(self.log.end_offset, error)

    def on_start_moved(self) -> None:
        """Records at the beginning were deleted: followers are to do the same."""
        for follower in self.followers.values():
            if follower.place is not None:
                follower.place.has_news()

    # What followers do.

    def follower_fetched(self, follower: Follower, broker_epoch: int, offset: int, now_ms: int) -> bool:
        """What a follower has on disk, by its fetch. Whether it should now be added to those in sync."""
        follower.fetched(broker_epoch, offset, now_ms)
        if follower.replica_id in self.isr:
            self._advance()
            return False
        if (
            not follower.is_joining
            and offset >= follower.sent_end_offset >= 0
            and self._is_welcome(follower.replica_id)
        ):
            follower.is_joining = True
            self._count()
        self._advance()
        return self.may_join(follower)

    def look_who_joins(self) -> None:
        """Nodes have come or gone: nothing waits for one that can't come in sync, such as one that is stopping."""
        gone = [each for each in self.followers.values() if each.is_joining and not self._is_welcome(each.replica_id)]
        for follower in gone:
            follower.is_joining = False
        if gone:
            self.reconsider()

    def may_join(self, follower: Follower) -> bool:
        """Whether it is not in sync, but has all that is committed, and nothing else is being decided."""
        offset = follower.end_offset
        is_apart = self.proposed_isr is None and follower.replica_id not in self.isr
        return is_apart and offset >= self.high_watermark and offset >= self.epoch_start_offset

    def lagging(self, now_ms: int, lag_max_ms: int) -> list[int]:
        """The followers that are in sync by what the controller knows, and have been behind for too long."""
        lagging = []
        for follower in self.followers.values():
            if follower.lags(now_ms, lag_max_ms):
                if follower.is_joining:
                    follower.is_joining = False
                    self._count()
                if follower.replica_id in self.isr:
                    lagging.append(follower.replica_id)
        return lagging

    # What the controller does.

    def update(self, image: PartitionImage, now_ms: int) -> None:
        """The controller has committed a change in this leader epoch."""
        if image.partition_epoch <= self.partition_epoch:
            return
        if image.replicas != self.replicas:
            self._set_replicas(image.replicas, now_ms)
        self.commit_isr(image.isr, image.partition_epoch)

    def commit_isr(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """These are the in-sync replicas now, and nothing that was proposed before can still come to be."""
        if partition_epoch <= self.partition_epoch:
            return
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self.in_sync_replicas = len(isr)
        self.proposed_isr = None
        for follower in self.followers.values():
            follower.is_joining = follower.is_joining and follower.replica_id not in isr
        self.reconsider()

    def propose_isr(self, isr: tuple[int, ...] | None) -> None:
        """The controller is asked for this; or what it was asked for will not be (None)."""
        self.proposed_isr = isr
        self.reconsider()

    def reconsider(self) -> None:
        """Who counts, or how many must be in sync, may have changed."""
        if self.has_ended:
            return
        self.is_alone = not self.followers
        self.is_safe = self.in_sync_replicas >= self.min_in_sync_replicas
        self._count()
        self._advance()

    @property
    def min_in_sync_replicas(self) -> int:
        """A topic can't demand more copies than it has."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def _set_replicas(self, replicas: tuple[int, ...], now_ms: int) -> None:
        self.replicas = replicas
        for replica_id in set(self.followers).difference(replicas):
            self._lose(self.followers.pop(replica_id))
        for replica_id in replicas:
            if replica_id != self.node_id and replica_id not in self.followers:
                self.followers[replica_id] = Follower(self, replica_id, now_ms)

    def _count(self) -> None:
        proposed = self.proposed_isr or ()
        self._counting = [
            follower
            for replica_id, follower in self.followers.items()
            if replica_id in self.isr or replica_id in proposed or follower.is_joining
        ]

    # The high watermark.

    def _advance(self) -> None:
        offset = durable = self.log.durable_offset
        for follower in self._counting:
            if follower.end_offset < offset:
                offset = follower.end_offset
        before = self.high_watermark
        if offset <= before or not self.is_safe:
            return
        self.high_watermark = offset
        # As if all records were of one size: nobody knows how many of these bytes they have. There is one at least.
        shown_bytes = self._hidden_bytes * (offset - before) // (durable - before)
        self._hidden_bytes -= shown_bytes
        if self.waiters:
            self._wake(shown_bytes or 1)
        if self._commits:
            self._tell_committed()
        for follower in self.followers.values():
            if follower.place is not None:
                follower.place.has_news()

    def when_committed(self, offset: int, done: OnCommitted) -> None:
        """Call `done` once everything below `offset` is committed: at once if it is.

        With NOT_LEADER_OR_FOLLOWER if leadership ends before that, for then nobody here can know.
        """
        if self.high_watermark >= offset:
            done(None)
        elif self.has_ended:
            done(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_KNOWN_TO_LAST))
        elif not self._commits:
            self._commits = deque([(offset, done)])
        elif self._commits[-1][0] <= offset:
            self._commits.append((offset, done))
        else:
            insort(self._commits, (offset, done), key=itemgetter(0))

    def end(self) -> None:
        """This node leads the partition no longer, or not in this epoch: nobody waits for it here any more."""
        self.has_ended = True
        self.is_alone = self.is_safe = False
        self._refuse_above(NO_OFFSET, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, NOT_KNOWN_TO_LAST))
        for follower in self.followers.values():
            self._lose(follower)
        self._dismiss()

    def _lose(self, follower: Follower) -> None:
        place, follower.place = follower.place, None
        if place is not None:
            place.lost()

    def _tell_committed(self) -> None:
        commits, high_watermark = self._commits, self.high_watermark
        while commits and commits[0][0] <= high_watermark:
            commits.popleft()[1](None)

    def _refuse_above(self, offset: int, error: BrokerError) -> None:
        refused = [done for wanted, done in self._commits if wanted > offset]
        self._commits = deque(waiting for waiting in self._commits if waiting[0] <= offset) or NOBODY
        for done in refused:
            done(error)

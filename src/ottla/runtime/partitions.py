"""The partitions of this node: which it leads, which it follows, and how it gets from one to the other.

The metadata says who leads what; this carries it out. A partition with one replica is opened when it is first used: a
node may have ten thousand of them. One that has followers, or a leader elsewhere, is opened when the metadata says so.

A change of role waits until what the old role has begun is on disk: a log that is about to be cut must not be appended
to, and a follower says where its log ends only when it ends there for good. Requests do one lookup in plain
dictionaries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import NO_LEADER
from ottla.metadata.internal_topics import INTERNAL_TOPICS
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.runtime.turned_away import TurnedAway
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.config import LogConfig
    from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
    from ottla.metadata.state import Changes
    from ottla.ports import Bytes, Clock
    from ottla.replication.readable import Readable
    from ottla.runtime.committer import Committer
    from ottla.runtime.timers import Timers
    from ottla.services import Deferred
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager
    from ottla.types import TopicId

log_lines = logging.getLogger(__name__)

OnLed: TypeAlias = Callable[[Partition], None]
OnLost: TypeAlias = Callable[[str, int], None]
"""Given the topic and the partition's index."""
OnFollowed: TypeAlias = Callable[[Replica], None]

RETRY_MS = 500
"""Before a role that could not be taken, since the disk would not have it, is tried again."""


class Partitions:
    def __init__(
        self,
        *,
        node_id: int,
        logs: LogManager,
        image: Callable[[], MetadataImage],
        log_config: Callable[[str], LogConfig],
        committer: Committer,
        clock: Clock,
        timers: Timers,
        known_high_watermark: Callable[[TopicPartition], int],
    ) -> None:
        """`known_high_watermark` is that of the run before this one."""
        self._node_id = node_id
        self._logs = logs
        self._image = image
        self._log_config = log_config
        self._committer = committer
        self._clock = clock
        self._timers = timers
        self._known_high_watermark = known_high_watermark
        self._led: dict[str, dict[int, Partition]] = {}
        self._led_by_id: dict[TopicId, dict[int, Partition]] = {}
        """The same inner dictionaries."""
        self._followed: dict[TopicPartition, Replica] = {}
        self._replicated: dict[Partition, None] = {}
        """Those of the led that have followers."""
        self.has_followers = False
        """Whether there are any."""
        self._applied: dict[str, TopicImage] = {}
        """What has been carried out, or is being."""
        self._last_high_watermarks: dict[TopicPartition, int] = {}
        """Of partitions that are between two roles."""
        self._changing: set[TopicPartition] = set()
        self._turned_away = TurnedAway()
        self._listeners: list[tuple[OnLed, OnLost]] = []
        self.isr_expands = self.isr_shrinks = 0
        """Replicas that came in sync, or no longer are, of partitions led here."""
        self.leader_changes = 0
        """Of all partitions that this node knows."""
        self.has_readers_of_followed = False
        """Whether anybody has ever read from a partition that is followed here."""
        self.on_first_reader: Callable[[], None] = _no_matter
        self.on_follow: OnFollowed = _nothing
        self.on_unfollow: OnFollowed = _nothing

    # Lookups

    def led_in(self, topic: str | TopicId) -> Mapping[int, Partition]:
        """Those of a topic that are led here and were used, by index: as they are now, and as they change later. None
        any more when the topic is deleted, even if there is one of that name again."""
        of_topic = self._led.get(topic) if isinstance(topic, str) else self._led_by_id.get(topic)
        return {} if of_topic is None else of_topic

    def get(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER if it is led elsewhere."""
        of_topic = self._led.get(topic)
        if of_topic is not None:
            partition = of_topic.get(index)
            if partition is not None:
                return partition
        return self._first_use(self._image().topics.get(topic), index)

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_ID too."""
        of_topic = self._led_by_id.get(topic_id)
        if of_topic is not None:
            partition = of_topic.get(index)
            if partition is not None:
                return partition
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._first_use(topic, index)

    def turn_away(self, topic: str | TopicId, index: int, records: Bytes, code: ErrorCode) -> None:
        """This batch is refused, since its partition could not be looked up. It may be led here soon."""
        self._turned_away.note((topic, index), records, code, self._clock.monotonic_ms())

    def readable(self, topic: str, index: int) -> Readable:
        """The partition, led here or followed."""
        try:
            return self.get(topic, index)
        except BrokerError:
            followed = self._followed.get(TopicPartition(topic, index))
            if followed is None:
                raise
            self._note_reader()
            return followed

    def readable_by_id(self, topic_id: TopicId, index: int) -> Readable:
        try:
            return self.get_by_id(topic_id, index)
        except BrokerError:
            topic = self._image().topics_by_id.get(topic_id)
            followed = None if topic is None else self._followed.get(TopicPartition(topic.name, index))
            if followed is None:
                raise
            self._note_reader()
            return followed

    def _note_reader(self) -> None:
        if not self.has_readers_of_followed:
            self.has_readers_of_followed = True
            self.on_first_reader()

    def log_of(self, topic: str, index: int) -> Log:
        """Of a partition of which this node has a replica, whatever its role."""
        followed = self._followed.get(TopicPartition(topic, index))
        return self.get(topic, index).log if followed is None else followed.log

    def opened(self, topic: str, index: int) -> Readable | None:
        """The partition, if it is here and was used: looking at it opens nothing."""
        led = self._led.get(topic, {}).get(index)
        return led if led is not None else self._followed.get(TopicPartition(topic, index))

    def led(self) -> Iterator[Partition]:
        """Those that were used."""
        for of_topic in self._led.values():
            yield from of_topic.values()

    def replicated(self) -> Iterable[Partition]:
        """Those led here that have followers."""
        return self._replicated

    def copies(self) -> Iterator[Readable]:
        """All that are led here and have followers, or are followed."""
        yield from self._replicated
        yield from self._followed.values()

    def high_watermark(self, log: Log) -> int:
        """Of the partition that a log belongs to."""
        followed = self._followed.get(log.partition)
        if followed is not None:
            return followed.high_watermark
        topic, index = log.partition
        partition = self._led.get(topic, {}).get(index)
        if partition is not None:
            return partition.high_watermark
        image = self._image().partition(topic, index)
        is_alone = image is not None and len(image.replicas) == 1
        return log.durable_offset if is_alone else self._last_high_watermark(log.partition)

    def _first_use(self, topic: TopicImage | None, index: int) -> Partition:
        image = None if topic is None else topic.partitions.get(index)
        if topic is None or image is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (
            image.leader != self._node_id
            or len(image.replicas) > 1
            or TopicPartition(topic.name, index) in self._changing
        ):
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._lead(topic, index, image)

    # What the metadata says

    def start(self) -> None:
        """Take the roles that the metadata, as it is now, gives this node."""
        for topic in self._image().topics.values():
            self._apply(topic)

    def listen(self, on_led: OnLed, on_lost: OnLost) -> None:
        """Tell of the partitions of internal topics that are led here, now and later, and of those that no longer are.

        A partition that is led anew, in another epoch, is lost first. Others are not told of: nobody asked for them
        yet, and telling would open their logs.
        """
        self._listeners.append((on_led, on_lost))
        for name in INTERNAL_TOPICS:
            topic = self._image().topics.get(name)
            for index, image in topic.partitions.items() if topic is not None else ():
                led = self._led.get(name, {}).get(index)
                if led is not None:
                    on_led(led)
                elif topic is not None and image.leader == self._node_id and len(image.replicas) == 1:
                    self._lead(topic, index, image)

    def changed(self, changes: Changes) -> None:
        for topic in changes.topics_deleted:
            self._deleted(topic)
        for topic in changes.topics_created.values():
            self._apply(topic)
        for topic in changes.topics_changed.values():
            self._apply(topic)

    def configs_changed(self, topics: Iterable[str]) -> None:
        for topic in topics:
            image = self._image().topics.get(topic)
            config = self._log_config(topic)
            for index in image.partitions if image is not None else ():
                replica = self._followed.get(TopicPartition(topic, index))
                if replica is not None:
                    replica.log.config = config
            for partition in self._led.get(topic, {}).values():
                partition.log.config = config
                partition.reconsider()

    def _apply(self, topic: TopicImage) -> None:
        before = self._applied.get(topic.name)
        if before is not None and before.topic_id != topic.topic_id:
            self._deleted(before)
            before = None
        self._applied[topic.name] = topic
        known = before.partitions if before is not None else {}
        for index, image in topic.partitions.items():
            old = known.get(index)
            if old is not image:
                if old is not None:
                    self._count(old, image)
                self._changed(topic, index, old, image)

    def _count(self, old: PartitionImage, image: PartitionImage) -> None:
        self.leader_changes += old.leader != image.leader
        if image.leader == self._node_id:
            self.isr_expands += len(set(image.isr).difference(old.isr))
            self.isr_shrinks += len(set(old.isr).difference(image.isr))

    def _changed(self, topic: TopicImage, index: int, old: PartitionImage | None, image: PartitionImage) -> None:
        at = TopicPartition(topic.name, index)
        led = self._led.get(topic.name, {}).get(index)
        if led is not None and image.leader == self._node_id and image.leader_epoch == led.leader_epoch:
            led.update(image, self._clock.monotonic_ms())
            self._note_replicated(led)
            return
        followed = self._followed.get(at)
        if (
            followed is not None
            and image.leader == followed.leader_id
            and image.leader_epoch == followed.leader_epoch
            and self._node_id in image.replicas
        ):
            return
        had_role = led is not None or followed is not None
        if led is not None:
            self._end_leading(led)
        if followed is not None:
            self._end_following(followed)
        if self._node_id in image.replicas:
            self._settle(at, had_role)
        elif old is not None and self._node_id in old.replicas:
            self._forget(at, topic.topic_id)

    # From role to role

    def _settle(self, at: TopicPartition, had_role: bool) -> None:
        """Take the new role when nothing of the old one is under way any more."""
        if at in self._changing:
            return
        if not had_role:
            self._take_role(at)
            return
        self._changing.add(at)
        self._committer.after_commit(None).on_done(lambda done: self._settled(at, done))

    def _settled(self, at: TopicPartition, done: Deferred[Any]) -> None:
        if done.error is not None and self._committer.failed is None:
            # What the old role has begun is still to be done: the disk may be full.
            self._timers.after_ms(RETRY_MS, lambda: self._settle_again(at))
            return
        self._changing.discard(at)
        self._take_role(at)

    def _settle_again(self, at: TopicPartition) -> None:
        self._committer.commit_soon()
        self._committer.after_commit(None).on_done(lambda done: self._settled(at, done))

    def _take_role(self, at: TopicPartition) -> None:
        """What the newest metadata gives it."""
        topic = self._applied.get(at.topic)
        image = None if topic is None else topic.partitions.get(at.partition)
        if topic is None or image is None or self._node_id not in image.replicas:
            return
        try:
            if image.leader != self._node_id:
                if len(image.replicas) > 1:
                    self._follow(topic, at.partition, image)
            elif len(image.replicas) > 1 or (topic.is_internal and self._listeners):
                self._lead(topic, at.partition, image)
        except BrokerError as error:
            log_lines.error("%s can't be opened, and is tried again: %s", at, error)
            self._changing.add(at)
            self._timers.after_ms(RETRY_MS, lambda: self._settle_again(at))

    def _lead(self, topic: TopicImage, index: int, image: PartitionImage) -> Partition:
        at = TopicPartition(topic.name, index)
        log = self._open(at, topic)
        log.begin_epoch(image.leader_epoch, self._clock.now_ms())
        for name in (topic.name, topic.topic_id):
            self._turned_away.tell((name, index), log.refusals, self._clock.monotonic_ms())
        partition = Partition(
            topic=topic.name,
            topic_id=topic.topic_id,
            index=index,
            leader_epoch=image.leader_epoch,
            log=log,
            node_id=self._node_id,
            image=image,
            high_watermark=self._last_high_watermark(at),
            now_ms=self._clock.monotonic_ms(),
            is_welcome=self._is_in_service,
        )
        self._last_high_watermarks.pop(at, None)
        of_topic = self._led.setdefault(topic.name, {})
        self._led_by_id[topic.topic_id] = of_topic
        of_topic[index] = partition
        self._note_replicated(partition)
        if topic.is_internal:
            for on_led, _ in self._listeners:
                on_led(partition)
        return partition

    def _is_in_service(self, node_id: int) -> bool:
        broker = self._image().brokers.get(node_id)
        return broker is not None and broker.is_active

    def _open(self, at: TopicPartition, topic: TopicImage) -> Log:
        config = self._log_config(topic.name)
        log = self._logs.get(at, topic.topic_id, config)
        if log.config != config:
            log.config = config  # it was opened before the node knew the topic's
        return log

    def _note_replicated(self, partition: Partition) -> None:
        if partition.followers:
            self._replicated[partition] = None
        else:
            self._replicated.pop(partition, None)
        self.has_followers = bool(self._replicated)

    def _end_leading(self, partition: Partition) -> None:
        del self._led[partition.topic][partition.index]
        self._replicated.pop(partition, None)
        self.has_followers = bool(self._replicated)
        self._last_high_watermarks[TopicPartition(partition.topic, partition.index)] = partition.high_watermark
        partition.end()
        if partition.topic in INTERNAL_TOPICS:
            for _, on_lost in self._listeners:
                on_lost(partition.topic, partition.index)

    def _follow(self, topic: TopicImage, index: int, image: PartitionImage) -> None:
        at = TopicPartition(topic.name, index)
        replica = Replica(
            topic=topic.name,
            topic_id=topic.topic_id,
            index=index,
            leader_epoch=image.leader_epoch,
            leader_id=image.leader,
            log=self._open(at, topic),
            high_watermark=self._last_high_watermark(at),
        )
        self._last_high_watermarks.pop(at, None)
        self._followed[at] = replica
        if replica.leader_id != NO_LEADER:
            self.on_follow(replica)

    def _end_following(self, replica: Replica) -> None:
        at = TopicPartition(replica.topic, replica.index)
        del self._followed[at]
        self._last_high_watermarks[at] = replica.high_watermark
        self.on_unfollow(replica)
        replica.end()

    def _last_high_watermark(self, at: TopicPartition) -> int:
        known = self._last_high_watermarks.get(at)
        return self._known_high_watermark(at) if known is None else known

    # What is gone

    def _forget(self, at: TopicPartition, topic_id: TopicId) -> None:
        """No replica is to be here any more."""
        self._last_high_watermarks.pop(at, None)
        self._logs.delete(at, topic_id)
        self._committer.commit_soon()

    def _deleted(self, topic: TopicImage) -> None:
        self._applied.pop(topic.name, None)
        for partition in list(self._led.get(topic.name, {}).values()):
            self._end_leading(partition)
        self._led.pop(topic.name, None)
        self._led_by_id.pop(topic.topic_id, None)
        for index, image in topic.partitions.items():
            at = TopicPartition(topic.name, index)
            followed = self._followed.get(at)
            if followed is not None:
                self._end_following(followed)
            if self._node_id in image.replicas:
                self._forget(at, topic.topic_id)


def _nothing(_: Replica) -> None:
    """Nobody fetches."""


def _no_matter() -> None:
    """Nobody is in a hurry for readers."""

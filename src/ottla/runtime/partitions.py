"""The partitions that this node leads, opened when they are first used.

The metadata image says which partitions there are; the log manager holds their logs. This is the table between the two:
one lookup by name for every partition of every request, so it is two plain dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.internal_topics import INTERNAL_TOPICS
from ottla.replication.partition import Partition
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.config import LogConfig
    from ottla.metadata.image import MetadataImage, TopicImage
    from ottla.storage.log import Log
    from ottla.storage.log_manager import LogManager
    from ottla.types import TopicId

OnLed: TypeAlias = Callable[[Partition], None]
OnLost: TypeAlias = Callable[[str, int], None]
"""Given the topic and the partition's index."""


class Partitions:
    def __init__(
        self,
        *,
        logs: LogManager,
        image: Callable[[], MetadataImage],
        log_config: Callable[[str], LogConfig],
    ) -> None:
        self._logs = logs
        self._image = image
        self._log_config = log_config
        self._open: dict[str, dict[int, Partition]] = {}
        self._listeners: list[tuple[OnLed, OnLost]] = []

    def listen(self, on_led: OnLed, on_lost: OnLost) -> None:
        """Tell of the partitions of internal topics that are led here, now and later, and of those that no longer are.

        A partition that is led anew, in another epoch, is lost first. Others are not told of: nobody asked for them
        yet, and telling would open their logs.
        """
        self._listeners.append((on_led, on_lost))
        for name in INTERNAL_TOPICS:
            topic = self._image().topics.get(name)
            for index in topic.partitions if topic is not None else ():
                on_led(self.get(name, index))

    def topic_created(self, topic: TopicImage) -> None:
        if topic.is_internal and self._listeners:
            for index in topic.partitions:
                for on_led, _ in self._listeners:
                    on_led(self.get(topic.name, index))

    def get(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        of_topic = self._open.get(topic)
        if of_topic is not None:
            partition = of_topic.get(index)
            if partition is not None:
                return partition
        return self._first_use(self._image().topics.get(topic), index)

    def get_by_id(self, topic_id: TopicId, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_ID."""
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.get(topic.name, index)

    def opened(self) -> Iterator[Partition]:
        for of_topic in self._open.values():
            yield from of_topic.values()

    def high_watermark(self, log: Log) -> int:
        """Of the partition that a log belongs to."""
        topic, index = log.partition
        partition = self._open.get(topic, {}).get(index)
        return log.durable_offset if partition is None else partition.high_watermark

    def _first_use(self, topic: TopicImage | None, index: int) -> Partition:
        registration = None if topic is None else topic.partitions.get(index)
        if topic is None or registration is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = self._logs.get(TopicPartition(topic.name, index), topic.topic_id, self._log_config(topic.name))
        partition = Partition(
            topic=topic.name,
            topic_id=topic.topic_id,
            index=index,
            leader_epoch=registration.leader_epoch,
            log=log,
        )
        self._open.setdefault(topic.name, {})[index] = partition
        return partition

    # What changes in the metadata is carried out here.

    def topic_deleted(self, topic: TopicImage) -> None:
        of_topic = self._open.pop(topic.name, {})
        for partition in of_topic.values():
            partition.end()
            if topic.is_internal:
                for _, on_lost in self._listeners:
                    on_lost(topic.name, partition.index)
        for index in topic.partitions:
            self._logs.delete(TopicPartition(topic.name, index), topic.topic_id)

    def configs_changed(self, topics: Iterable[str]) -> None:
        for topic in topics:
            of_topic = self._open.get(topic)
            if of_topic:
                config = self._log_config(topic)
                for partition in of_topic.values():
                    partition.log.config = config

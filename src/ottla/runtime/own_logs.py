"""Which logs are this node's, by what the metadata says, and what to do with those on its disk that are not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.metadata.topic_configs import topic_log_config
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.config import BrokerConfig, LogConfig
    from ottla.metadata.image import MetadataImage
    from ottla.runtime.metadata import Metadata
    from ottla.storage.log_manager import LogManager
    from ottla.storage.recovery import RecoveryReport
    from ottla.types import TopicId

log_lines = logging.getLogger(__name__)


class OwnLogs:
    def __init__(self, config: BrokerConfig, metadata: Metadata, logs: LogManager) -> None:
        self._config = config
        self._metadata = metadata
        self._logs = logs

    @property
    def _image(self) -> MetadataImage:
        return self._metadata.image

    def config_of(self, topic: str) -> LogConfig:
        return topic_log_config(self._config, self._image, topic)

    def find(self, topic_id: TopicId, index: int) -> tuple[TopicPartition, LogConfig] | None:
        found = self._metadata.find_partition(topic_id, index)
        return None if found is None else (found, self.config_of(found.topic))

    def known(self) -> Iterator[tuple[TopicPartition, TopicId, LogConfig]]:
        """Every partition of which this node has a replica."""
        for topic in self._image.topics.values():
            config = self.config_of(topic.name)
            for index, partition in topic.partitions.items():
                if self._config.node_id in partition.replicas:
                    yield TopicPartition(topic.name, index), topic.topic_id, config

    def recover(self) -> None:
        """Make the logs what they were, and say what had to be done for that."""
        report: RecoveryReport = self._logs.recover(self.find)
        for sentence in report.sentences():
            log_lines.warning("recovery: %s", sentence)

    def tell_strays(self) -> None:
        """A node alone deletes nothing that it does not know."""
        for directory in self._logs.strays(
            lambda known: self._image.partition(known.topic, known.partition) is not None
        ):
            log_lines.warning("the directory %s belongs to no partition of this node", directory)

    def drop_strays(self) -> bool:
        """Of partitions that were deleted or moved away while this node was not there: now it knows of that.

        Whether there were any: then a commit must follow.
        """
        dropped = self._logs.drop_strays(self._has_replica)
        for partition in dropped:
            log_lines.info("%s is deleted: no replica of it is here any more", partition)
        return bool(dropped)

    def _has_replica(self, partition: TopicPartition, topic_id: TopicId) -> bool:
        topic = self._image.topics_by_id.get(topic_id)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return known is not None and self._config.node_id in known.replicas

"""The file of high watermarks, from which a replica goes on after a restart: Kafka's `replication-offset-checkpoint`.

Written without a sync: one that is old or lost only means that readers wait until the replica has heard of its leader,
or of its followers, again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.storage.checkpoints import offsets_file, read_kafka_offsets
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.replication.readable import Readable
    from ottla.runtime.timers import Timers

HIGH_WATERMARKS = "replication-offset-checkpoint"


class HighWatermarks:
    def __init__(self, disk: Disk, *, timers: Timers, interval_ms: int) -> None:
        self._disk = disk
        self._replicas: Callable[[], Iterable[Readable]] = tuple
        self._timers = timers
        self._interval_ms = interval_ms
        self._written: dict[TopicPartition, int] = {}
        try:
            self._written = read_kafka_offsets(disk, HIGH_WATERMARKS)
        except CorruptLogError:
            self._written = {}

    def of(self, partition: TopicPartition) -> int:
        """What was last written of a partition; 0 if nothing was."""
        return self._written.get(partition, 0)

    def start(self, replicas: Callable[[], Iterable[Readable]]) -> None:
        """Write down, from here on, what these know."""
        self._replicas = replicas
        self._timers.after_ms(self._interval_ms, self._again)

    def _again(self) -> None:
        self.write()
        self._timers.after_ms(self._interval_ms, self._again)

    def write(self) -> None:
        current = {TopicPartition(replica.topic, replica.index): replica.high_watermark for replica in self._replicas()}
        if current == self._written:
            return
        file = offsets_file(self._disk, HIGH_WATERMARKS, current)
        try:
            written = file.write()
            if written is not None:
                written.close()
                file.put_in_place()
        except OSError:
            return  # a full disk: an old file does as well
        self._written = current

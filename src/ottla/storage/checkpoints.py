"""The small files at the top of the data directory that say how far the logs are.

`log-offsets-checkpoint` holds, for each log, how far its segments are synced (its recovery point) and where it begins.
The journal is the authority for what happened lately; this holds for logs of which it says nothing any more. Logs go by
topic id: a topic that was deleted and made again under the same name is another one.

Kafka keeps the same in `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint`, by name. A clean stop
writes them too, for its tools.

`.kafka_cleanshutdown` is there between a clean stop and the next start. Ours also says where the journal goes on, so
that the start after a clean stop need not read the journal at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptLogError
from ottla.storage.journal import Resume
from ottla.storage.pending import ReplaceFile
from ottla.types import TopicPartition, topic_id_text
from ottla.values import value

if TYPE_CHECKING:
    from ottla.ports import Disk
    from ottla.types import TopicId

LOG_OFFSETS = "log-offsets-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_VERSION = "0"


class LogOffsets(NamedTuple):
    recovery_point: int = 0
    start_offset: int = 0


NOTHING_KNOWN = LogOffsets()


class KnownOffsets:
    """What is known of each log, kept as lines of the file: there may be thousands, and most of them never change."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}

    @classmethod
    def read(cls, disk: Disk) -> KnownOffsets:
        """What the file says; nothing if it is missing. CorruptLogError if it is not such a file."""
        known = cls()
        try:
            lines = _read(disk, LOG_OFFSETS).decode("ascii", "replace").splitlines()
        except FileNotFoundError:
            return known
        try:
            if lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
                raise ValueError
            for line in lines[2:]:
                log, recovery_point, start_offset = line.rsplit(" ", 2)
                if not (recovery_point.isdigit() and start_offset.isdigit()):
                    raise ValueError
                known._lines[log] = line
        except (ValueError, IndexError):
            raise CorruptLogError(f"{LOG_OFFSETS} is not a checkpoint file") from None
        return known

    def of(self, topic_id: TopicId, partition: int) -> LogOffsets:
        line = self._lines.get(_log(topic_id, partition))
        if line is None:
            return NOTHING_KNOWN
        _, recovery_point, start_offset = line.rsplit(" ", 2)
        return LogOffsets(int(recovery_point), int(start_offset))

    def note(self, topic_id: TopicId, partition: int, offsets: LogOffsets) -> None:
        log = _log(topic_id, partition)
        if offsets != NOTHING_KNOWN:
            self._lines[log] = f"{log} {offsets.recovery_point} {offsets.start_offset}"
        else:
            self._lines.pop(log, None)

    def forget(self, topic_id: TopicId, partition: int) -> None:
        self._lines.pop(_log(topic_id, partition), None)

    def file(self, disk: Disk) -> LogOffsetsFile:
        """The file as it should be now."""
        return LogOffsetsFile(disk, list(self._lines.values()))


def _log(topic_id: TopicId, partition: int) -> str:
    return f"{topic_id_text(topic_id)} {partition}"


class LogOffsetsFile:
    """Something to be synced: any thread may write it, as a whole or not at all."""

    __slots__ = ("_disk", "_lines")

    def __init__(self, disk: Disk, lines: list[str]) -> None:
        self._disk = disk
        self._lines = lines

    def sync(self) -> None:
        _replace(self._disk, LOG_OFFSETS, _lines(self._lines))


def write_kafka_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    offsets_file(disk, path, offsets).sync()
    disk.sync_directory("")


def offsets_file(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> ReplaceFile:
    """A file of offsets by topic and partition, as Kafka has them."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ReplaceFile(disk, path, _lines(lines))


def read_kafka_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Nothing if there is no such file. CorruptLogError if it is not one of offsets."""
    try:
        lines = _read(disk, path).decode("ascii", "replace").splitlines()
    except FileNotFoundError:
        return {}
    try:
        if lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
            raise ValueError
        rows = [line.split(" ") for line in lines[2:]]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (ValueError, IndexError):
        raise CorruptLogError(f"{path} is not a checkpoint file") from None


@value
class CleanShutdown:
    """What a clean stop leaves for the next start."""

    journal: Resume
    """Where the journal goes on."""
    unchecked: frozenset[str] = frozenset()
    """Directories of logs that nobody has opened since the last crash: they still need the look that they were owed."""
    broker_epoch: int = -1


def write_clean_shutdown(disk: Disk, shutdown: CleanShutdown) -> None:
    content = {
        "version": 0,
        "brokerEpoch": shutdown.broker_epoch,
        "journal": asdict(shutdown.journal),
        "unchecked": sorted(shutdown.unchecked),
    }
    _replace(disk, CLEAN_SHUTDOWN, json.dumps(content).encode())


def take_clean_shutdown(disk: Disk) -> CleanShutdown | None:
    """Read the marker and remove it, durably: from here on, until the next clean stop, a stop is not a clean one."""
    try:
        content = _read(disk, CLEAN_SHUTDOWN)
    except FileNotFoundError:
        return None
    disk.remove(CLEAN_SHUTDOWN)
    disk.sync_directory("")
    try:
        fields = json.loads(content)
        journal = Resume(**{name: int(value) for name, value in fields["journal"].items()})
        unchecked = frozenset(map(str, fields["unchecked"]))
        return CleanShutdown(journal=journal, unchecked=unchecked, broker_epoch=int(fields["brokerEpoch"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # Kafka's own, or damaged: the start is a little slower, and as safe


def _lines(lines: list[str]) -> bytes:
    return ("\n".join([_VERSION, str(len(lines)), *lines]) + "\n").encode()


def _read(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def _replace(disk: Disk, path: str, content: bytes) -> None:
    ReplaceFile(disk, path, content).sync()
    disk.sync_directory("")

"""The small files at the top of the data directory, in Kafka's formats.

`recovery-point-offset-checkpoint` says how far the segments of each log were known to be synced,
`log-start-offset-checkpoint` where each log begins if that is not where its first segment does. The journal is the
authority for what happened lately; these hold for logs of which it says nothing any more.

`.kafka_cleanshutdown` is there between a clean stop and the next start. Ours also says where the journal goes on, so
that the start after a clean stop need not read the journal at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.storage.journal import Resume
from ottla.storage.pending import ReplaceFile
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.ports import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_VERSION = "0"


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """What the file says; nothing if it is missing. CorruptLogError if it is not such a file."""
    try:
        text = _read(disk, path).decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise CorruptLogError(f"{path} is not a checkpoint file") from None
    lines = text.splitlines()
    try:
        if lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
            raise ValueError
        return dict(_parse_line(line) for line in lines[2:])
    except (ValueError, IndexError):
        raise CorruptLogError(f"{path} is not a checkpoint file") from None


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file as a whole, durably: after a crash there is the old one or the new one."""
    lines = [_VERSION, str(len(offsets)), *(f"{topic} {index} {offset}" for (topic, index), offset in offsets.items())]
    _replace(disk, path, ("\n".join(lines) + "\n").encode())


class OffsetsFile:
    """A checkpoint file with these offsets, as something to be synced: any thread may write it."""

    __slots__ = ("_disk", "_offsets", "_path")

    def __init__(self, disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._disk = disk
        self._path = path
        self._offsets = dict(offsets)

    def sync(self) -> None:
        write_offsets(self._disk, self._path, self._offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
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


def _parse_line(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split()
    return TopicPartition(topic, int(partition)), int(offset)


def _read(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def _replace(disk: Disk, path: str, content: bytes) -> None:
    ReplaceFile(disk, path, content).sync()
    disk.sync_directory("")

"""The directories of a node's logs: whose they are, and how they go.

A deleted log's directory is renamed at once, so that its name is free, and removed later, since that takes time. One
that belongs to a topic with another id (its removal was lost in a crash, or somebody copied it there) is put aside
under a name that says so, and stays for somebody to look at. The names are Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.storage import names
from ottla.types import TopicPartition, topic_id_from_text

if TYPE_CHECKING:
    from ottla.ports import Disk, Random
    from ottla.types import TopicId

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_NAME_MAX = 255
_ID_BYTES = 16


def topic_id_in(disk: Disk, directory: str) -> TopicId | None:
    """What `partition.metadata` says; None if there is no such file or it can't be read."""
    try:
        file = disk.open(f"{directory}/{names.PARTITION_METADATA}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    text = file.pread(200, 0).decode("ascii", "replace")
    file.close()
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = topic_id_from_text(fields["topic_id"].strip())
    except (KeyError, ValueError):
        return None
    return topic_id if len(topic_id) == _ID_BYTES else None


def first_offset_in(disk: Disk, directory: str) -> int:
    """The base offset of the first segment; 0 if there is none."""
    bases = (names.offset_in_name(name, names.LOG) for name in disk.list(directory))
    return min((base for base in bases if base is not None), default=0)


def rename_away(disk: Disk, random: Random, directory: str, suffix: str) -> str:
    """Free the name. Returns the new one."""
    ending = f".{random.randbytes(_ID_BYTES).hex()}{suffix}"
    renamed = directory[: _NAME_MAX - len(ending)] + ending
    disk.rename(directory, renamed)
    return renamed


def partition_of(name: str) -> TopicPartition | None:
    """The partition that a directory of this name is for; None if it is none of a log."""
    topic, dash, index = name.rpartition("-")
    return TopicPartition(topic, int(index)) if topic and dash and index.isascii() and index.isdigit() else None


def find_logs(disk: Disk) -> list[str]:
    return [name for name in disk.list("") if partition_of(name) is not None]


def find_doomed(disk: Disk) -> list[str]:
    """Directories whose removal was interrupted."""
    return [name for name in disk.list("") if name.endswith(DELETE_SUFFIX)]


def find_strays(disk: Disk, is_known: Callable[[TopicPartition], bool]) -> list[str]:
    """Directories of logs that no topic knows of, and those put aside."""
    found = []
    for name in disk.list(""):
        partition = partition_of(name)
        if name.endswith(STRAY_SUFFIX) or (partition is not None and not is_known(partition)):
            found.append(name)
    return found

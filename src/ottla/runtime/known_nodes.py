"""The file `known-nodes` in the data directory: where other nodes of the cluster were, one `host:port` a line.

A hint that saves nodes from not finding each other: what is wrong with it is logged, never raised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.config.seeds import split_seed
from ottla.errors import ConfigError
from ottla.ports import Disk

log = logging.getLogger(__name__)

FILE = "known-nodes"
NODES_MAX = 1_000


def read_known_nodes(disk: Disk) -> tuple[str, ...]:
    try:
        if not disk.exists(FILE):
            return ()
        file = disk.open(FILE)
        text = file.pread(file.size(), 0).decode(errors="replace")
        file.close()
    except OSError as error:
        log.warning("%s can't be read: %s", FILE, error)
        return ()
    return tuple(line for line in text.splitlines()[:NODES_MAX] if _is_place(line))


def write_known_nodes(disk: Disk, places: Sequence[str]) -> None:
    try:
        file = disk.open(FILE + ".tmp", create=True)
        file.truncate(0)
        file.pwritev(["".join(f"{place}\n" for place in places[:NODES_MAX]).encode()], 0)
        file.sync()
        file.close()
        disk.rename(FILE + ".tmp", FILE)
        disk.sync_directory("")
    except OSError as error:
        log.warning("%s can't be written: %s", FILE, error)


def _is_place(line: str) -> bool:
    try:
        split_seed(line)
    except ConfigError:
        return False
    return True

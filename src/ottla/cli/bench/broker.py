"""What the broker's process costs, read from /proc: its CPU time and its memory."""

import os
from dataclasses import dataclass

from ottla.cli.connection import addresses
from ottla.cli.failures import CommandError
from ottla.runtime.directory_lock import lock_owner

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    cpu_us: int
    rss_bytes: int


def find_broker(bootstrap: str, data_dir: str, pid: int | None) -> int | None:
    """The process to watch: the one named, or the node that owns `data_dir` if it is the one that is loaded."""
    if pid is not None:
        usage(pid)
        return pid
    owner = lock_owner(data_dir)
    if owner is None or not owner.address:
        return None
    return owner.pid if addresses(owner.address)[0][1] in [port for _, port in addresses(bootstrap)] else None


def usage(pid: int) -> Usage:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The name of the program may hold spaces and brackets: what follows its last bracket does not.
            fields = file.read().rpartition(")")[2].split()
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError as error:
        raise CommandError(f"There is no process {pid} to watch: {error.strerror}") from error
    ticks = int(fields[11]) + int(fields[12])
    return Usage(cpu_us=ticks * 1_000_000 // _TICKS_PER_SECOND, rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"))

"""Ports for what a test starts: each is given out once, over all processes that run tests on this machine.

A port that the system hands out itself (bind to 0, close, use it later) may belong to any client's connection by the
time it is used. These lie below the range that the system takes from, and a counter in a locked file, the same for all
processes, sees to it that two tests never have the same one in mind.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
_COUNTER = Path(tempfile.gettempdir()) / f"ottla-test-ports-{os.getuid()}"


def free_port() -> int:
    """Free for TCP and UDP."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many in a row, each free for TCP and UDP."""
    with _COUNTER.open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        at = int(counter.read() or 0)
        for _ in range(len(PORTS)):
            first = PORTS.start + at % (len(PORTS) - count)
            at += count
            if all(map(_is_free, range(first, first + count))):
                counter.truncate(0)
                counter.write(str(at))
                return first
    raise AssertionError(f"no {count} ports in a row are free")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server would
            try:
                probe.bind((HOST, port))
            except OSError:
                return False
    return True

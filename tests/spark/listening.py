"""Where a process listens, as the kernel tells it."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

LISTENS = "0A"


def addresses(pid: int) -> set[str]:
    """Of all its TCP sockets that others may connect to."""
    own = _sockets(pid)
    return {address for inode, address in _listening() if inode in own}


def _sockets(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def _listening() -> list[tuple[str, str]]:
    """The inode and the address of each."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
            if state == LISTENS:
                found.append((inode, _address(local.partition(":")[0])))
    return found


def _address(digits: str) -> str:
    """Words of four bytes, each as this machine has it in memory."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)

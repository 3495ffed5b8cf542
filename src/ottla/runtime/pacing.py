"""Answers to clients on the same machine are sent at once, also where the system paces what it sends.

BBR learns how much a network takes, and spreads packets over time so that no more is under way. Between two processes
of one machine there is nothing to learn, and a timer that waits for its moment is all that comes of it. So a connection
that does not leave the machine goes without; all others are as the system's administrator wants them.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

PACED = b"bbr"
"""How the names of those begin that pace."""
UNPACED = b"reno"
"""Every Linux has it, and every process may use it."""
_OPTION: int | None = getattr(socket, "TCP_CONGESTION", None)  # Linux has it
_NAME_BYTES_MAX = 16


def is_paced(listening: Any) -> bool:
    """Whether connections that come in by this socket are, unless something is done about it."""
    return _OPTION is not None and _name(listening).startswith(PACED)


def unpace_local(connection: Any, own: tuple[Any, ...] | None, peer: tuple[Any, ...] | None) -> None:
    """`own` and `peer` are its addresses: equal hosts are one machine."""
    if _OPTION is not None and own and peer and own[0] == peer[0]:
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, _OPTION, UNPACED)


def _name(of: Any) -> bytes:
    try:
        name: bytes = of.getsockopt(socket.IPPROTO_TCP, _OPTION, _NAME_BYTES_MAX)
    except OSError:
        return b""
    return name

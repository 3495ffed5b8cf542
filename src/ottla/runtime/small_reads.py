"""How a connection is read while its requests are small: the loop hands over what has come, as bytes.

Large requests are read into a buffer of ours, which saves a copy (`Connection.get_buffer`). For small ones that buffer
costs more than it saves: the loop asks for it at each read, and a small request is copied out of it anyhow. So a
connection whose requests have been small for a while is read this way, until one comes that is not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.connection import Connection

SMALL_BYTES_MAX = 2 * 1024
"""Of a small request."""
SMALL_READS_MIN = 16
"""So many reads of small requests, one after the other, and it is read as one that has no others."""


class SmallReads(asyncio.Protocol):
    """What a transport is given in place of the connection. It calls the connection's own methods."""

    def __init__(self, connection: Connection) -> None:
        self.data_received = connection.data_received  # type: ignore[method-assign]
        self.eof_received = connection.eof_received  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]

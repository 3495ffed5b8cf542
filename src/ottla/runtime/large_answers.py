"""Answers with stretches of files in them: the system moves those from its page cache into the socket, past us.

They go past the transport as well, so the order is kept here: nothing is sent while the transport still has something,
and what the socket has no room for is left in a line, behind which later answers wait.

The transport is who waits for room. It is given the next few bytes, with a bound of nothing on what it may buffer, so
that it holds the connection back, and says when they have left.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.runtime.disk import FileStretch

if TYPE_CHECKING:
    import asyncio

    from ottla.ports import Bytes

log = logging.getLogger(__name__)

WAITING_BYTES = 16 * 1024
"""What the transport gets while the socket is full."""


class LargeAnswers:
    """What one connection is sent of them, and what comes after."""

    __slots__ = ("_bytes_max", "_left", "_transport")

    def __init__(self, transport: asyncio.Transport, send_buffer_bytes_max: int) -> None:
        """`send_buffer_bytes_max`: what the transport may buffer when nothing is left here."""
        self._transport = transport
        self._bytes_max = send_buffer_bytes_max
        self._left: deque[Bytes | FileStretch] = deque()

    def add(self, pieces: Iterable[Bytes | FileStretch]) -> None:
        self._left.extend(pieces)

    def begin(self) -> bool:
        """Send; False if something is left, for `go_on` when the transport says that it can be written to again."""
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            return False
        return self.go_on()

    def go_on(self) -> bool:
        """The same, when the transport has nothing any more."""
        transport = self._transport
        while not transport.is_closing():
            try:
                if self._fill_socket():
                    transport.set_write_buffer_limits(high=self._bytes_max)
                    break
                piece = self._take()
            except OSError as error:
                if not isinstance(error, ConnectionError):
                    log.warning("closing a connection, since a file can't be sent: %s", str(error))
                transport.abort()
                break
            transport.set_write_buffer_limits(high=0)
            transport.write(piece)
            if transport.get_write_buffer_size():
                return False
        self._left.clear()
        return True

    def _fill_socket(self) -> bool:
        """False if something is left that does not go this way, at least not now."""
        left = self._left
        connection = self._transport.get_extra_info("socket")
        descriptor = connection.fileno()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # no packet for the few bytes between stretches
        try:
            while left:
                piece = left[0]
                if isinstance(piece, FileStretch):
                    if not piece.send(descriptor):
                        return False
                    if piece.size:
                        continue
                else:
                    sent = os.write(descriptor, piece)
                    if sent < len(piece):
                        left[0] = memoryview(piece)[sent:]
                        continue
                left.popleft()
        except BlockingIOError:
            return False
        finally:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        return True

    def _take(self) -> Bytes:
        """A little of what is left."""
        piece = self._left[0]
        if isinstance(piece, FileStretch):
            taken = piece.read(min(piece.size, WAITING_BYTES))
            if not piece.size:
                self._left.popleft()
            return taken
        self._left.popleft()
        return piece

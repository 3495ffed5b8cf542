"""Answers with stretches of files in them: the system moves those from its page cache into the socket, past us.

They go past the transport as well, so the order is kept here: nothing is sent while the transport still has something,
and what the socket has no room for is left in a line, behind which later answers wait.

The transport is who waits for room. It is given the next few bytes, with a bound of nothing on what it may buffer, so
that it holds the connection back, and says when they have left.

A reader on the same machine may take the bytes as fast as they are sent. So that others are served meanwhile, only so
many are sent in one turn of the loop.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.runtime.disk import FileStretch

if TYPE_CHECKING:
    import asyncio

    from ottla.ports import Bytes

log = logging.getLogger(__name__)

WAITING_BYTES = 16 * 1024
"""What the transport gets while the socket is full."""
TURN_BYTES = 4 << 20
"""What is sent in one turn of the loop: a millisecond or two."""


class LargeAnswers:
    """What one connection is sent of them, and what comes after."""

    __slots__ = ("_bytes_max", "_go_on_soon", "_left", "_transport")

    def __init__(
        self, transport: asyncio.Transport, send_buffer_bytes_max: int, go_on_soon: Callable[[], object]
    ) -> None:
        """`send_buffer_bytes_max`: what the transport may buffer when nothing is left here. `go_on_soon` has `go_on`
        called in the next turn of the loop.
        """
        self._transport = transport
        self._go_on_soon = go_on_soon
        self._bytes_max = send_buffer_bytes_max
        self._left: deque[Bytes | FileStretch] = deque()

    def add(self, pieces: Iterable[Bytes | FileStretch]) -> None:
        self._left.extend(pieces)

    def begin(self) -> bool:
        """Send; False if something is left, for `go_on` when its turn or the transport's word comes."""
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            return False
        return self.go_on()

    def go_on(self) -> bool:
        """The same, when the transport has nothing any more."""
        transport = self._transport
        while not transport.is_closing():
            try:
                room_bytes = self._fill_socket(TURN_BYTES)
                if not self._left:
                    transport.set_write_buffer_limits(high=self._bytes_max)
                    break
                if not room_bytes:
                    self._go_on_soon()
                    return False
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

    def _fill_socket(self, most_bytes: int) -> int:
        """Send until nothing is left or goes this way, or so many bytes of files have gone. How many have not."""
        left = self._left
        connection = self._transport.get_extra_info("socket")
        descriptor = connection.fileno()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # no packet for the few bytes between stretches
        try:
            while left and most_bytes:
                piece = left[0]
                if isinstance(piece, FileStretch):
                    sent = piece.send(descriptor, most_bytes)
                    if not sent:
                        break
                    most_bytes -= sent
                    if piece.size:
                        continue
                else:
                    sent = os.write(descriptor, piece)
                    if sent < len(piece):
                        left[0] = memoryview(piece)[sent:]
                        continue
                left.popleft()
        except BlockingIOError:
            pass
        finally:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        return most_bytes

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

"""The two ends of a simulated connection, and the bytes on their way between them.

A `Pipe` is one direction. What the sender writes leaves in pieces of any size, as far as the window allows, and arrives
in order; the window opens again when the receiver has taken the bytes, so a reader that pauses stops its writer as a
real one does. The end of the stream and a reset travel behind the bytes.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.testing.sim_socket import SimSocket

if TYPE_CHECKING:
    from ottla.testing.sim_loop import SimLoop
    from ottla.testing.sim_network import Network

END = b""
"""In a pipe: the sender has no more to say."""
PIECE_BYTES = (1, 40, 1_000, 64_000)
"""Pieces are cut to a random size up to one of these: most are whole, some split every header."""
SPLIT_BYTES = 4_000
"""So much of what a pipe carries is cut like that, and the rest is not: splitting everything shows nothing more."""
WINDOWS_BYTES = (4_000, 64_000, 1_000_000)
RESEND_AFTER_S = 0.2
"""What a lost packet costs: TCP sends it again."""
HIGH_WATER_BYTES = 64 * 1024


class Pipe:
    def __init__(
        self, network: Network, source: SimTransport, target: SimTransport, name: str, listener: tuple[str, int]
    ) -> None:
        self.source = source
        self.target = target
        self.name = name
        self._listener = listener
        self._network = network
        self._world = network.world
        self._dice = network.world.dice(f"pipe {name}")
        self._window_bytes = self._dice.choice(WINDOWS_BYTES)
        self._piece_bytes = self._dice.choices(PIECE_BYTES, weights=(1, 2, 5, 12))[0]
        self._sent_bytes = 0
        self._unsent = bytearray()
        self._taken_bytes = 0
        self._taken_late = 0
        self._under_way_bytes = 0
        self._last_arrival = 0.0
        self._held: deque[bytes | None] = deque()
        """Pieces that a cut link keeps; None is a reset."""
        self._ends = False
        self._broken = False
        self._is_orphan = False
        """The sender has no power any more, but what had left it still arrives."""

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    # For the sender.

    def write(self, data: bytes) -> None:
        self._network.writes[self._listener] += 1
        self._unsent += data
        self._pump()

    def end(self) -> None:
        """After what was written."""
        self._ends = True
        self._pump()

    def reset(self) -> None:
        """What was not delivered is lost, and the other end is told so."""
        if not self._broken:
            self.drop()
            self._send(None)

    def drop(self) -> None:
        self._broken = True
        self._unsent.clear()
        self._held.clear()

    def _pump(self) -> None:
        while self._unsent and self._under_way_bytes < self._window_bytes and not self._broken:
            longest = self._piece_bytes if self._sent_bytes < SPLIT_BYTES else PIECE_BYTES[-1]
            size = min(self._dice.randint(1, longest), self._window_bytes - self._under_way_bytes)
            piece = bytes(self._unsent[:size])
            self._sent_bytes += len(piece)
            del self._unsent[:size]
            self._under_way_bytes += len(piece)
            self._send(piece)
        if self._ends and not self._unsent and not self._broken:
            self._ends = False
            self._send(END)

    def _send(self, piece: bytes | None) -> None:
        link = self._network.links.between(self.source.loop.host, self.target.loop.host)
        arrival = self._world.now + self._dice.uniform(link.delay_s_min, link.delay_s_max)
        if link.loss and self._dice.random() < link.loss:
            arrival += RESEND_AFTER_S
        self._last_arrival = max(self._last_arrival, arrival)
        self._world.at(self._last_arrival, self._arrive, piece)

    def orphan(self) -> None:
        """The sender's machine is dark. What has left it arrives, unless it is kept up somewhere."""
        self._is_orphan = True
        self._unsent.clear()
        self._held.clear()

    # On the way.

    def _arrive(self, piece: bytes | None) -> None:
        if self._broken and piece is not None:
            return
        if self._is_orphan:
            if piece and self._network.links.lets_in(self.source.loop.host, self.target.loop.host):
                self._deliver(piece)
            return
        if self._held or not self._network.links.passes(self.source.loop.host, self.target.loop.host):
            self._held.append(piece)
            return
        self._deliver(piece)

    def _deliver(self, piece: bytes | None) -> None:
        if not piece:
            self._network.forget(self)
        if piece is None:
            self.target.lose(ConnectionResetError(errno.ECONNRESET, "reset by the other end"))
        elif self.target.has_vanished:
            self.source.lose(ConnectionResetError(errno.ECONNRESET, "the other end does not know of this"))
        else:
            checksum = zlib.crc32(piece)
            self._world.note_detail(self.source.loop.host, f"{self.name} {len(piece)} bytes ({checksum:08x}) arrive")
            self.target.arrived(piece)

    def resume(self) -> None:
        """The link is whole again, or may be."""
        if self._held:
            delay_s = self._network.delay_s(self.source.loop.host, self.target.loop.host)
            self._world.after(delay_s, self._let_through)
        late, self._taken_late = self._taken_late, 0
        if late:
            self._acknowledge_soon(late)

    def _let_through(self) -> None:
        """What waited goes first: what was sent meanwhile has been put behind it."""
        while self._held and self._network.links.passes(self.source.loop.host, self.target.loop.host):
            self._deliver(self._held.popleft())

    # For the receiver.

    def taken(self, size: int) -> None:
        """The receiver has read so much: room for more, once the sender hears of it."""
        self._acknowledge_soon(size)

    def _acknowledge_soon(self, size: int) -> None:
        """One word for all that is taken until it leaves."""
        if not self._taken_bytes:
            delay_s = self._network.delay_s(self.target.loop.host, self.source.loop.host)
            self._world.after(delay_s, self._acknowledge)
        self._taken_bytes += size

    def _acknowledge(self) -> None:
        size, self._taken_bytes = self._taken_bytes, 0
        if not self._network.links.passes(self.target.loop.host, self.source.loop.host):
            self._taken_late += size
            return
        self._under_way_bytes -= size
        self._pump()
        self.source.drained()


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    out: Pipe
    into: Pipe

    def __init__(self, loop: SimLoop, *, own: tuple[str, int], peer: tuple[str, int]) -> None:
        """The two addresses are numbers and ports, as sockets show them."""
        super().__init__({"peername": peer, "sockname": own, "socket": SimSocket(own)})
        self.loop = loop
        self.has_vanished = False
        self._protocol: Any = None
        self._inbox: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._has_ended = False
        self._delivery_is_due = False
        self._low, self._high = HIGH_WATER_BYTES // 4, HIGH_WATER_BYTES
        self._protocol_is_paused = False

    @property
    def is_open(self) -> bool:
        return not self._is_lost and not self.has_vanished

    # For the network.

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver_soon()

    def arrived(self, piece: bytes) -> None:
        if self._is_lost:
            self.out.reset()
            return
        self._inbox.append(piece)
        self._deliver_soon()

    def lose(self, error: Exception | None) -> None:
        """The connection is over; the protocol hears of it in the next turn."""
        if self.is_open:
            self._is_lost = self._is_closing = True
            self._inbox.clear()
            self.out.drop()
            self.loop.network.forget(self.out)
            self.loop.call_soon(self._tell_lost, error)

    def vanish(self) -> None:
        """The process is gone, without a word to it."""
        self.has_vanished = True

    def drained(self) -> None:
        if self._protocol_is_paused and self.out.unsent_bytes <= self._low and self.is_open:
            self._protocol_is_paused = False
            self.loop.call_soon(self._protocol.resume_writing)
        if self._is_closing and not self.out.unsent_bytes:
            self.lose_in_order()

    def lose_in_order(self) -> None:
        """Everything has left: the end is on its way, so the pipe is not dropped."""
        if self.is_open:
            self._is_lost = True
            self._inbox.clear()
            self.loop.call_soon(self._tell_lost, None)

    def _tell_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # Reading.

    def _deliver_soon(self) -> None:
        if not self._delivery_is_due and self._protocol is not None and self._inbox and self._is_reading:
            self._delivery_is_due = True
            self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivery_is_due = False
        while self._inbox and self._is_reading and not self._is_closing:
            piece = self._inbox.popleft()
            if piece == END:
                self._ended()
            elif isinstance(self._protocol, asyncio.BufferedProtocol):
                self._fill(piece)
            else:
                self._protocol.data_received(piece)
                self.into.taken(len(piece))

    def _fill(self, piece: bytes) -> None:
        room = memoryview(self._protocol.get_buffer(-1))
        size = min(len(room), len(piece))
        room[:size] = piece[:size]
        if size < len(piece):
            self._inbox.appendleft(piece[size:])
        self.into.taken(size)
        self._protocol.buffer_updated(size)

    def _ended(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._deliver_soon()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    # Writing.

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """As uvloop's: of a connection that is lost, but not yet said to be, nothing may be asked."""
        if self._is_lost:
            raise RuntimeError("the connection is closed")
        if self._is_closing or self._has_ended or not data:
            return
        self.out.write(bytes(data))
        if self.out.unsent_bytes > self._high and not self._protocol_is_paused:
            self._protocol_is_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._has_ended and not self._is_closing:
            self._has_ended = True
            self.out.end()

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self.out.unsent_bytes

    # Ending.

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if not self._has_ended:
            self._has_ended = True
            self.out.end()
        if not self.out.unsent_bytes:
            self.lose_in_order()

    def abort(self) -> None:
        if self.is_open:
            self._is_lost = self._is_closing = True
            self._inbox.clear()
            self.out.reset()
            self.loop.call_soon(self._tell_lost, None)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

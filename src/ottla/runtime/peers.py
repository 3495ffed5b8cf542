"""The other nodes of the cluster, over TCP: a connection to each to speak, and one from each to listen.

Nothing here is reliable, and nothing needs to be: the quorum says again what was not answered. So a node that does not
keep up loses frames instead of filling this node's memory, and a connection on which nothing was heard back for a while
is given up and dialled anew, since TCP would take minutes to notice that the other machine is gone.

A process that is killed is noticed at once, since its system lives on: that ends the connection, and refuses the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.errors import PortTakenError, ProtocolError
from ottla.raft.messages import Message
from ottla.raft.wire import decode_message, encode_message
from ottla.runtime.peer_wire import FrameKind, FrameReader, Hello, frame, hello_frame, read_hello

if TYPE_CHECKING:
    from ottla.ports import Bytes

log = logging.getLogger(__name__)

Address = tuple[str, int]
Resolve = Callable[[int], "Address | None"]
"""Where a node can be reached, if that is known."""

UNSENT_BYTES_MAX = 8 << 20
"""On one connection: more is dropped."""
QUEUED_BYTES_MAX = 1 << 20
"""For a node that is being dialled."""
DIAL_TIMEOUT_S = 2.0
RETRY_S_MIN, RETRY_S_MAX = 0.05, 1.0
SILENCE_S_MAX = 2.0
"""After that a connection on which nothing came back is taken for dead."""
HEARD_EVERY_S = 0.5
HELLO_TIMEOUT_S = 5.0
INCOMING_MAX = 4_096
LOOK_EVERY_S = 1.0
"""At most this often it is looked whether a node whose connection has ended is still there."""
LOOKS_MAX, LOOK_AGAIN_S = 5, 0.01
"""A process that ends closes one thing after the other: it may accept another connection, and end that too."""


class Peers:
    """`bind`, then `serve`; `send` as soon as there is something to say."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, hello: Hello, resolve: Resolve) -> None:
        self.hello = hello
        self.on_message: Callable[[Message, bytes], None] = lambda _message, _directory_id: None
        """Given each message of the quorum, and the directory of the node that it is from."""
        self.on_frame: Callable[[int, FrameKind, memoryview], None] = lambda _node_id, _kind, _content: None
        """Given what else arrives: from which node, what, and its content, which is valid during the call."""
        self.on_lost: Callable[[int], None] = lambda _node_id: None
        """Given a node whose connection has ended, and who was heard on it."""
        self.on_ended: Callable[[int], None] = lambda _node_id: None
        """Given a node whose process has ended: its connection broke, and nobody listens at its address any more."""
        self.loop = loop
        self._resolve = resolve
        self._links: dict[int, Link] = {}
        self._incoming: dict[Incoming, None] = {}
        self._server: asyncio.Server | None = None
        self._directories: dict[int, bytes] = {}
        self._told: set[str] = set()
        self.is_closed = False

    async def bind(self, address: str, port: int) -> int:
        """The port that was taken. Raises PortTakenError."""
        try:
            self._server = await self.loop.create_server(lambda: Incoming(self), address, port, start_serving=False)
        except OSError as error:
            raise PortTakenError(
                f"can't listen on {address}:{port} for the cluster: {error.strerror or error}"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def serve(self) -> None:
        assert self._server is not None
        await self._server.start_serving()

    async def close(self) -> None:
        self.is_closed = True
        if self._server is not None:
            self._server.close()
        for link in self._links.values():
            link.close()
        for incoming in tuple(self._incoming):
            incoming.abort()
        await asyncio.sleep(0)  # transports tell their protocols in the next turn

    # Saying

    def send(self, to: int, message: Message) -> None:
        self.send_frame(to, frame(FrameKind.RAFT, encode_message(message)))

    def send_frame(self, to: int, pieces: Sequence[Bytes]) -> None:
        if not self.is_closed:
            link = self._links.get(to)
            if link is None:
                link = self._links[to] = Link(to, self)
            link.send(pieces)

    def address_of(self, node_id: int) -> Address | None:
        return self._resolve(node_id)

    def unsent_bytes(self, to: int) -> int:
        """What waits for that node to take it."""
        link = self._links.get(to)
        return 0 if link is None else link.unsent_bytes

    # Listening

    def opened(self, incoming: Incoming) -> bool:
        if self.is_closed or len(self._incoming) >= INCOMING_MAX:
            return False
        self._incoming[incoming] = None
        return True

    def greeted(self, incoming: Incoming, hello: Hello) -> str | None:
        """Why the node is not listened to, if it isn't."""
        if hello.cluster_id != self.hello.cluster_id:
            return (
                f"this is cluster {self.hello.cluster_id}, node {hello.node_id} belongs to cluster {hello.cluster_id}"
            )
        if hello.node_id == self.hello.node_id:
            return f"node {hello.node_id} is this node: two nodes have the same node_id"
        for other in tuple(self._incoming):
            if other is not incoming and other.node_id == hello.node_id:
                other.abort()  # it has begun anew
        self._directories[hello.node_id] = hello.directory_id
        return None

    def directory_of(self, node_id: int) -> bytes | None:
        """Where that node keeps its log, if it has been heard from."""
        return self.hello.directory_id if node_id == self.hello.node_id else self._directories.get(node_id)

    def lost(self, incoming: Incoming) -> None:
        self._incoming.pop(incoming, None)

    def tell_once(self, sentence: str) -> None:
        """A foreign node tries again and again."""
        if sentence not in self._told:
            self._told.add(sentence)
            log.warning("%s", sentence)


class Incoming(asyncio.Protocol):
    """What another node has to say."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._greeting_due: asyncio.TimerHandle | None = None
        self._directory_id = b""
        self._told_at = float("-inf")
        self.node_id: int | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not self._peers.opened(self):
            transport.abort()
            return
        self._greeting_due = self._loop.call_later(HELLO_TIMEOUT_S, self.abort)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, content in self._reader.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                self._take(kind, content)
        except ProtocolError as error:
            self._peers.tell_once(f"the cluster port was sent something that is not for it: {error}")
            self.abort()
            return
        self._tell_heard()

    def _take(self, kind: FrameKind, content: memoryview) -> None:
        if self.node_id is None:
            self._greet(kind, content)
        elif kind is FrameKind.RAFT:
            message = decode_message(content)
            if message.sender != self.node_id:
                raise ProtocolError(f"node {self.node_id} speaks in the name of node {message.sender}")
            self._peers.on_message(message, self._directory_id)
        else:
            self._peers.on_frame(self.node_id, kind, content)

    def _greet(self, kind: FrameKind, content: memoryview) -> None:
        if kind is not FrameKind.HELLO:
            raise ProtocolError("a node must say who it is before anything else")
        hello = read_hello(content)
        refusal = self._peers.greeted(self, hello)
        if refusal is not None:
            self._refuse(refusal)
            return
        if self._greeting_due is not None:
            self._greeting_due.cancel()
        self.node_id, self._directory_id = hello.node_id, hello.directory_id

    def _refuse(self, why: str) -> None:
        self._peers.tell_once(f"a node is refused: {why}")
        if self._transport is not None:
            self._transport.writelines(frame(FrameKind.REFUSED, [why.encode()]))
            self._transport.close()

    def _tell_heard(self) -> None:
        now = self._loop.time()
        transport = self._transport
        if transport is None or transport.is_closing() or self.node_id is None:
            return
        if now - self._told_at >= HEARD_EVERY_S:
            self._told_at = now
            transport.writelines(frame(FrameKind.HEARD))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._greeting_due is not None:
            self._greeting_due.cancel()
        self._transport = None
        self._peers.lost(self)


class Link:
    """The way to one other node, dialled when there is something to say."""

    def __init__(self, node_id: int, peers: Peers) -> None:
        self._node_id = node_id
        self._peers = peers
        self._loop = peers.loop
        self._dialled: Dialled | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._queue: list[Bytes] = []
        self._queued_bytes = 0
        self._retry_s = RETRY_S_MIN
        self._retry_at = 0.0
        self._unheard_since: float | None = None
        self._look_from = 0.0
        self._looks_left = 0
        self._is_closed = False

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes if self._dialled is None else self._dialled.unsent_bytes

    def send(self, pieces: Sequence[Bytes]) -> None:
        now = self._loop.time()
        if self._unheard_since is not None and now - self._unheard_since > SILENCE_S_MAX:
            self._give_up()
        if self._dialled is None:
            self._queue_frame(pieces)
            self._dial(now)
        elif self._dialled.unsent_bytes < UNSENT_BYTES_MAX:
            self._write(self._dialled, pieces, now)

    def _write(self, dialled: Dialled, pieces: Sequence[Bytes], now: float) -> None:
        if self._unheard_since is None:
            self._unheard_since = now
        dialled.write(pieces)

    def _queue_frame(self, pieces: Sequence[Bytes]) -> None:
        size = sum(map(len, pieces))
        if not self._queue or self._queued_bytes + size <= QUEUED_BYTES_MAX:
            self._queue += pieces
            self._queued_bytes += size

    def _take_queue(self) -> list[Bytes]:
        queue, self._queue, self._queued_bytes = self._queue, [], 0
        return queue

    # Dialling

    def _dial(self, now: float) -> None:
        if self._dialling is not None or now < self._retry_at or self._is_closed:
            return
        address = self._peers.address_of(self._node_id)
        if address is None:
            self._later()
            return
        self._dialling = self._loop.create_task(self._connect(address))

    async def _connect(self, address: Address) -> None:
        dialled = Dialled(self)
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                await self._loop.create_connection(lambda: dialled, *address)
        except (OSError, TimeoutError) as error:
            log.debug("node %d can't be reached at %s: %s", self._node_id, address, error)
            if dialled is self._dialled:
                dialled.connection_lost(None)  # made as its time was up: uvloop closes it, and does not tell it
            else:
                self._later()
            if isinstance(error, ConnectionRefusedError):
                self._nobody_listens()
        finally:
            self._dialling = None

    # Whether the node is still there, whose connection has just ended

    def _look(self, dialled: Dialled) -> None:
        now = self._loop.time()
        if dialled.was_heard and now >= self._look_from:
            self._look_from = now + LOOK_EVERY_S
            self._looks_left = LOOKS_MAX
            self._dial_now()
        elif self._looks_left:
            self._looks_left -= 1
            self._loop.call_later(LOOK_AGAIN_S, self._dial_now)

    def _dial_now(self) -> None:
        if self._looks_left and self._dialled is None:
            self._retry_at = 0.0
            self._dial(self._loop.time())

    def _nobody_listens(self) -> None:
        """Where a connection has ended a moment ago, so has the process; otherwise it may not have begun."""
        if self._looks_left and not self._is_closed:
            self._looks_left = 0
            self._peers.on_ended(self._node_id)

    def _later(self) -> None:
        """What waited is old by then: Raft says what is still true."""
        self._take_queue()
        self._retry_at = self._loop.time() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)

    def opened(self, dialled: Dialled) -> bool:
        """Whether it is of any use."""
        if self._is_closed or self._dialled is not None:
            return False
        self._dialled = dialled
        self._write(dialled, [*hello_frame(self._peers.hello), *self._take_queue()], self._loop.time())
        return True

    def heard(self) -> None:
        self._looks_left = 0
        self._unheard_since = None
        self._retry_s = RETRY_S_MIN

    def refused(self, why: str) -> None:
        self._retry_s = RETRY_S_MAX
        self._peers.tell_once(f"node {self._node_id} refuses this node: {why}")

    def garbled(self, error: ProtocolError) -> None:
        self._peers.tell_once(f"what listens at the address of node {self._node_id} is no node of a cluster: {error}")

    def lost(self, dialled: Dialled) -> None:
        if self._dialled is dialled:
            self._dialled = None
            self._unheard_since = None
            self._later()
            if dialled.was_heard and not self._is_closed:
                self._peers.on_lost(self._node_id)
            self._look(dialled)

    def _give_up(self) -> None:
        dialled, self._dialled = self._dialled, None
        self._unheard_since = None
        if dialled is not None:
            dialled.abort()

    def close(self) -> None:
        self._is_closed = True
        self._give_up()
        if self._dialling is not None:
            self._dialling.cancel()


class Dialled(asyncio.Protocol):
    """One connection of a link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self.was_heard = False

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, pieces: Sequence[Bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not self._link.opened(self):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self.was_heard = True
        self._link.heard()
        try:
            for kind, content in self._reader.feed(data):
                if kind is FrameKind.REFUSED:
                    self._link.refused(str(content, "utf-8", "replace"))
        except ProtocolError as error:
            self._link.garbled(error)
            self.abort()

    def eof_received(self) -> bool:
        """The loop says that the connection is lost some turns later."""
        self._link.lost(self)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._link.lost(self)

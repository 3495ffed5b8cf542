"""Connections between nodes: dialled when needed, given up when dead, and closed to strangers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest
import uvloop

from ottla.errors import PortTakenError
from ottla.raft.messages import Attach, Message
from ottla.runtime import peers as peers_module
from ottla.runtime.peer_wire import FrameKind, Hello, frame, hello_frame
from ottla.runtime.peers import Address, Peers
from tests.runtime.quorum_rig import until


class Side:
    """One node's peers, and what they have heard."""

    def __init__(self, node_id: int, addresses: dict[int, Address], cluster_id: str = "c") -> None:
        hello = Hello(node_id=node_id, directory_id=bytes([node_id] * 16), cluster_id=cluster_id)
        self.node_id = node_id
        self._addresses = addresses
        self.peers = Peers(loop=asyncio.get_running_loop(), hello=hello, resolve=addresses.get)
        self.heard: list[tuple[int, bytes]] = []
        self.ended: list[int] = []
        self.lost: list[int] = []
        self.peers.on_message = self._hear
        self.peers.on_ended = self.ended.append
        self.peers.on_lost = self.lost.append

    def _hear(self, message: Message, directory_id: bytes) -> None:
        self.heard.append((message.term, directory_id))

    async def listen(self, port: int = 0) -> "Side":
        bound = await self.peers.bind("127.0.0.1", port)
        self._addresses[self.node_id] = ("127.0.0.1", bound)
        await self.peers.serve()
        return self

    def say(self, to: int, term: int) -> None:
        self.peers.send(to, Attach(sender=self.node_id, term=term))

    def terms(self) -> list[int]:
        return [term for term, _ in self.heard]


def run(scenario: Callable[[dict[int, Address]], Awaitable[None]]) -> None:
    async def life() -> None:
        await scenario({})

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())


def test_what_is_said_arrives_in_order_with_the_directory_of_who_said_it() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        for term in range(100):
            one.say(2, term)
        await until(lambda: len(two.heard) == 100)
        assert two.heard == [(term, bytes([1] * 16)) for term in range(100)]
        assert two.peers.directory_of(1) == bytes([1] * 16)
        two.say(1, 7)
        await until(lambda: one.terms() == [7])
        await one.peers.close()
        await two.peers.close()

    run(scenario)


def test_a_node_that_was_away_is_found_again_wherever_it_is() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        one.say(2, 1)
        await until(lambda: two.terms() == [1])
        await two.peers.close()
        again = await Side(2, addresses).listen()

        def is_heard() -> bool:
            one.say(2, 2)
            return 2 in again.terms()

        await until(is_heard)
        await one.peers.close()
        await again.peers.close()

    run(scenario)


async def until_answered(one: Side, to: int) -> None:
    """Both have heard of each other."""
    link = one.peers._links.get(to)
    await until(lambda: link is not None and link._dialled is not None and link._dialled.was_heard)


def test_a_node_whose_process_ends_is_noticed_at_once() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        one.say(2, 1)
        await until_answered(one, 2)

        await two.peers.close()

        await until(lambda: one.ended == [2])
        assert one.lost == [2]
        for _ in range(3):
            one.say(2, 2)
            await asyncio.sleep(0.1)  # dialled again, and refused again
        assert one.ended == [2], "once"
        await one.peers.close()

    run(scenario)


def test_a_node_that_ends_a_connection_and_still_listens_has_not_ended() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        one.say(2, 1)
        await until_answered(one, 2)
        (incoming,) = two.peers._incoming

        incoming.abort()

        await until(lambda: bool(two.peers._incoming) and incoming not in two.peers._incoming)
        assert one.ended == []
        assert one.lost == [2]
        await one.peers.close()
        await two.peers.close()

    run(scenario)


class Ending:
    """Listens as node 2, and ends every connection, the first `words` of them after a word."""

    def __init__(self, *, words: int, connections_max: int | None = None) -> None:
        self.accepted = 0
        self._words = words
        self._connections_max = connections_max
        self._server: asyncio.Server | None = None

    async def listen(self, addresses: dict[int, Address]) -> "Ending":
        self._server = await asyncio.start_server(self._end, "127.0.0.1", 0)
        addresses[2] = ("127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def _end(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.accepted <= self._words:
            writer.writelines(frame(FrameKind.HEARD))
        if self.accepted == self._connections_max:
            self.close()
        writer.close()

    def close(self) -> None:
        assert self._server is not None
        self._server.close()


def test_a_process_that_accepts_another_connection_while_it_ends_is_noticed_too() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        two = await Ending(words=1, connections_max=2).listen(addresses)
        one = await Side(1, addresses).listen()
        one.say(2, 1)

        await until(lambda: one.ended == [2])

        assert two.accepted == 2
        await one.peers.close()

    run(scenario)


def test_a_node_that_ends_connections_without_a_word_is_looked_for_a_few_times_only() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        two = await Ending(words=1).listen(addresses)
        one = await Side(1, addresses).listen()
        one.say(2, 1)

        await until(lambda: one.peers._links[2]._looks_left == 0 and two.accepted > 2)
        await asyncio.sleep(5 * peers_module.LOOK_AGAIN_S)

        assert (two.accepted, one.ended) == (1 + peers_module.LOOKS_MAX, [])
        await one.peers.close()
        two.close()

    run(scenario)


def test_a_node_that_keeps_ending_connections_is_not_looked_for_all_the_time() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        two = await Ending(words=1_000).listen(addresses)
        one = await Side(1, addresses).listen()
        one.say(2, 1)

        await until(lambda: two.accepted == 2)
        await asyncio.sleep(0.2)

        assert two.accepted == 2, "it is dialled, and looked for, and then only when there is something to say"
        await one.peers.close()
        two.close()

    run(scenario)


def test_a_node_that_was_never_there_has_not_ended() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        await two.peers.close()

        def is_refused_twice() -> bool:
            one.say(2, 1)
            link = one.peers._links[2]
            return link._retry_s > 2 * peers_module.RETRY_S_MIN

        await until(is_refused_twice)
        assert one.ended == []
        await one.peers.close()

    run(scenario)


class ClosedBehindItsBack:
    """A transport as uvloop leaves it when dialling is given up just after the connection was made: closed, without
    telling its protocol, nor saying so when asked."""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, _: object) -> None:
        if self.is_closed:
            raise RuntimeError("the handler is closed")

    def abort(self) -> None:
        """There is nothing left."""

    is_closed = False


class LateLoop:
    """Every connection is made when its time is up."""

    def __init__(self) -> None:
        self.dialled = 0
        self._now_s = 0.0

    def time(self) -> float:
        self._now_s += 0.1
        return self._now_s

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine)

    async def create_connection(self, new_protocol: Callable[[], asyncio.Protocol], *_: object) -> None:
        transport = ClosedBehindItsBack()
        new_protocol().connection_made(cast(asyncio.BaseTransport, transport))
        transport.is_closed = True
        self.dialled += 1
        raise TimeoutError


def test_a_connection_that_is_made_when_its_time_is_up_is_dialled_again() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        addresses[2] = ("127.0.0.1", 1)
        loop = LateLoop()
        hello = Hello(node_id=1, directory_id=bytes(16), cluster_id="c")
        peers = Peers(loop=cast(asyncio.AbstractEventLoop, loop), hello=hello, resolve=addresses.get)

        def is_dialled_again() -> bool:
            peers.send(2, Attach(sender=1, term=1))
            return loop.dialled == 3

        await until(is_dialled_again)

    run(scenario)


def test_a_connection_on_which_nothing_comes_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "SILENCE_S_MAX", 0.05)

    async def scenario(addresses: dict[int, Address]) -> None:
        accepted: list[asyncio.StreamWriter] = []

        async def never_answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)

        server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
        addresses[2] = ("127.0.0.1", server.sockets[0].getsockname()[1])
        one = await Side(1, addresses).listen()

        def is_dialled_again() -> bool:
            one.say(2, 1)
            return len(accepted) > 2

        await until(is_dialled_again)
        await one.peers.close()
        server.close()
        for writer in accepted:
            writer.transport.abort()
        await asyncio.sleep(0.01)

    run(scenario)


def test_a_node_that_does_not_read_does_not_fill_the_memory_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "UNSENT_BYTES_MAX", 100_000)

    async def scenario(addresses: dict[int, Address]) -> None:
        accepted: list[asyncio.StreamWriter] = []

        async def never_read(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # it can be read from

        server = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1)
        addresses[2] = ("127.0.0.1", server.sockets[0].getsockname()[1])
        one = await Side(1, addresses).listen()
        piece = frame(FrameKind.RAFT, [bytes(10_000)])
        for _ in range(3_000):
            one.peers.send_frame(2, piece)
            await asyncio.sleep(0)
        assert accepted
        assert 50_000 < one.peers.unsent_bytes(2) <= 100_000 + 10_005
        await one.peers.close()
        server.close()
        for writer in accepted:
            writer.transport.abort()
        await asyncio.sleep(0.01)

    run(scenario)


def test_a_node_may_speak_only_for_itself() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one, two = await Side(1, addresses).listen(), await Side(2, addresses).listen()
        one.peers.send(2, Attach(sender=3, term=1))
        one.say(2, 2)
        await asyncio.sleep(0.05)
        assert 1 not in two.terms()
        await one.peers.close()
        await two.peers.close()

    run(scenario)


@pytest.mark.parametrize(
    "stranger",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"".join(frame(FrameKind.RAFT, [b"no greeting"])),
        b"".join(hello_frame(Hello(node_id=9, directory_id=bytes(16), cluster_id="another"))),
        b"".join(hello_frame(Hello(node_id=1, directory_id=bytes(16), cluster_id="c"))),
    ],
    ids=["another protocol", "no greeting", "another cluster", "this very node"],
)
def test_strangers_are_shown_out(stranger: bytes) -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one = await Side(1, addresses).listen()
        reader, writer = await asyncio.open_connection(*addresses[1])
        writer.write(stranger)
        async with asyncio.timeout(10):
            with suppress(ConnectionResetError):
                await reader.read()
        assert one.heard == []
        writer.close()
        await one.peers.close()

    run(scenario)


def test_a_port_that_is_taken_is_told() -> None:
    async def scenario(addresses: dict[int, Address]) -> None:
        one = await Side(1, addresses).listen()
        with pytest.raises(PortTakenError, match="for the cluster"):
            await Side(2, {}).listen(addresses[1][1])
        await one.peers.close()

    run(scenario)

"""Connections between simulated processes behave as those of a real network do, in good times and in bad."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.testing.sim_links import Link
from ottla.testing.sim_loop import SimLoop
from ottla.testing.sim_network import CONNECT_TIMEOUT_S, Network
from ottla.testing.sim_world import World

PORT = 9092


class Peer(asyncio.Protocol):
    """Remembers everything that it is told."""

    def __init__(self) -> None:
        self.received = b""
        self.events: list[str] = []
        self.transport: Any = None
        self.stays_after_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.events.append("end")
        return self.stays_after_end

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)


class BufferedPeer(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = bytearray(7)
        self.received = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]


class Pair:
    """A client and a server on two machines, connected."""

    def __init__(self, seed: int = 1, server: Callable[[], Any] = Peer) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.server_loop = SimLoop(self.world, self.network, "server")
        self.client_loop = SimLoop(self.world, self.network, "client")
        self.accepted: list[Any] = []

        def accept() -> Any:
            self.accepted.append(server())
            return self.accepted[-1]

        self.listening = self.server_loop.create_task(self.server_loop.create_server(accept, "server", PORT))
        self.world.run_for(0.1)
        self.connecting = self.client_loop.create_task(self.client_loop.create_connection(Peer, "server", PORT))
        self.world.run_for(0.1)
        _, self.client = self.connecting.result()

    @property
    def server(self) -> Any:
        return self.accepted[0]

    def close(self) -> None:
        self.server_loop.kill()
        self.client_loop.kill()
        self.world.run_for(0)


@pytest.fixture
def pair() -> Any:
    pair = Pair()
    yield pair
    pair.close()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", [Peer, BufferedPeer])
def test_bytes_arrive_in_order_whatever_the_pieces(seed: int, kind: Callable[[], Any]) -> None:
    pair = Pair(seed, kind)
    data = bytes(range(256)) * 40
    pair.client.transport.writelines([data[:5], memoryview(data)[5:]])
    pair.world.run_for(60)

    assert pair.server.received == data
    pair.close()


def test_a_close_comes_after_what_was_written(pair: Pair) -> None:
    pair.client.transport.write(b"last words")
    pair.client.transport.close()
    pair.world.run_for(1)

    assert pair.server.received == b"last words"
    assert pair.server.events == ["end", "lost"]
    assert pair.client.events == ["lost"]


def test_a_half_closed_connection_still_carries_the_other_direction(pair: Pair) -> None:
    pair.server.stays_after_end = True
    pair.client.transport.write_eof()
    pair.world.run_for(1)
    pair.server.transport.write(b"answer")
    pair.world.run_for(1)

    assert pair.server.events == ["end"]
    assert pair.client.received == b"answer"


def test_an_abort_is_a_reset_for_the_other_end(pair: Pair) -> None:
    pair.client.transport.abort()
    pair.world.run_for(1)

    assert pair.server.events == ["ConnectionResetError"]


def test_a_reader_that_pauses_stops_its_writer(pair: Pair) -> None:
    data = bytes(5_000_000)
    pair.server.transport.pause_reading()
    pair.client.transport.set_write_buffer_limits(high=1_000)
    pair.client.transport.write(data)
    pair.world.run_for(1)
    assert pair.client.events == ["pause"]
    assert pair.server.received == b""

    pair.server.transport.resume_reading()
    pair.world.run_for(600)
    assert pair.client.events == ["pause", "resume"]
    assert len(pair.server.received) == len(data)


def test_what_a_cut_link_keeps_arrives_when_it_is_whole(pair: Pair) -> None:
    pair.network.cut(("client", "server"))
    pair.client.transport.write(b"late")
    pair.server.transport.write(b"in time")
    pair.world.run_for(5)
    assert pair.server.received == b""
    assert pair.client.received == b"in time"

    pair.network.heal()
    pair.world.run_for(1)
    assert pair.server.received == b"late"


def test_a_killed_process_resets_its_connections(pair: Pair) -> None:
    pair.server_loop.kill()
    pair.network.process_died(pair.server_loop)
    pair.world.run_for(1)

    assert pair.client.events == ["ConnectionResetError"]
    assert pair.server.events == []


def test_nobody_is_told_when_a_machine_loses_its_power_until_it_is_back(pair: Pair) -> None:
    pair.server_loop.kill()
    pair.network.power_lost(pair.server_loop)
    pair.client.transport.write(b"hello?")
    pair.world.run_for(60)
    assert pair.client.events == []

    pair.network.power_back("server")
    pair.world.run_for(1)
    assert pair.client.events == ["ConnectionResetError"]


def test_a_broken_connection_is_lost_for_both_ends(pair: Pair) -> None:
    pair.network.reset_one()
    pair.world.run_for(1)

    assert pair.client.events == pair.server.events == ["ConnectionResetError"]


def test_a_port_that_nobody_listens_on_refuses(pair: Pair) -> None:
    attempt = pair.client_loop.create_task(pair.client_loop.create_connection(Peer, "server", PORT + 1))
    pair.world.run_for(1)

    assert isinstance(attempt.exception(), ConnectionRefusedError)


def test_a_machine_that_can_not_be_reached_does_not_answer(pair: Pair) -> None:
    pair.network.cut(("server", "client"))
    attempt = pair.client_loop.create_task(pair.client_loop.create_connection(Peer, "server", PORT))
    pair.world.run_for(CONNECT_TIMEOUT_S - 1)
    assert not attempt.done()
    pair.world.run_for(2)

    assert isinstance(attempt.exception(), TimeoutError)


def test_a_port_is_given_once(pair: Pair) -> None:
    again = pair.server_loop.create_task(pair.server_loop.create_server(Peer, "server", PORT))
    pair.world.run_for(1)

    assert isinstance(again.exception(), OSError)


def test_a_link_is_whole_when_all_its_cuts_are_mended(pair: Pair) -> None:
    way = ("client", "server")
    pair.network.cut(way)
    pair.network.cut(way)
    pair.client.transport.write(b"late")
    pair.network.mend(way)
    pair.world.run_for(5)
    assert pair.server.received == b""

    pair.network.mend(way)
    pair.world.run_for(1)
    assert pair.server.received == b"late"


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_in_order_over_a_link_that_is_cut_again_and_again(seed: int) -> None:
    pair = Pair(seed)
    sent = b""
    for number in range(40):
        data = b"%04d" % number
        pair.client.transport.write(data)
        sent += data
        (pair.network.cut if number % 2 else pair.network.mend)(("client", "server"))
        pair.world.run_for(0.0007)
    pair.network.heal()
    pair.world.run_for(5)

    assert pair.server.received == sent
    pair.close()


def test_only_the_links_of_a_far_machine_are_slow(pair: Pair) -> None:
    pair.network.change([("client", "server")], Link(delay_s_min=2.0, delay_s_max=3.0))
    pair.client.transport.write(b"slow")
    pair.server.transport.write(b"quick")
    pair.world.run_for(1)
    assert (pair.server.received, pair.client.received) == (b"", b"quick")

    pair.world.run_for(3)
    assert pair.server.received == b"slow"


def test_a_process_that_stands_still_reads_nothing_until_it_goes_on(pair: Pair) -> None:
    pair.server_loop.stop_running()
    pair.client.transport.write(b"hello?")
    pair.world.run_for(60)
    assert pair.server.received == b""
    assert pair.client.events == []

    pair.server_loop.go_on()
    pair.world.run_for(1)
    assert pair.server.received == b"hello?"


def test_sockets_show_numbers_and_take_options(pair: Pair) -> None:
    theirs = pair.server.transport.get_extra_info("peername")
    assert theirs == pair.client.transport.get_extra_info("sockname")
    pair.client.transport.get_extra_info("socket").setsockopt(6, 1, 1)
    assert pair.client.transport.get_extra_info("socket").getsockopt(6, 1) == 1

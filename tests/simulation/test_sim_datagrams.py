"""Datagrams between simulated processes: what arrives, what does not, and from where it seems to come."""

import asyncio
import socket
from typing import Any

import pytest

from ottla.testing.sim_links import Link
from ottla.testing.sim_loop import SimLoop
from ottla.testing.sim_network import Network
from ottla.testing.sim_world import World

PORT = 7946


class Mailbox(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.transport: Any = None
        self.received: list[bytes] = []
        self.senders: set[Any] = set()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append(data)
        self.senders.add(addr)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Pair:
    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.loops = [SimLoop(self.world, self.network, name) for name in ("a", "b")]
        tasks = [
            loop.create_task(loop.create_datagram_endpoint(Mailbox, local_addr=(loop.host, PORT)))
            for loop in self.loops
        ]
        self.world.run_for(0.1)
        self.a, self.b = (task.result()[1] for task in tasks)

    def send(self, *data: bytes, seconds: float = 1.0) -> list[bytes]:
        """From a to b; everything that b has received so far."""
        for each in data:
            self.a.transport.sendto(each, ("b", PORT))
        self.world.run_for(seconds)
        received: list[bytes] = self.b.received
        return received

    def close(self) -> None:
        for loop in self.loops:
            loop.kill()
        self.world.run_for(0)


@pytest.fixture
def pair() -> Any:
    pair = Pair()
    yield pair
    pair.close()


def test_a_datagram_arrives_and_can_be_answered_where_it_came_from(pair: Pair) -> None:
    assert pair.send(b"hello") == [b"hello"]
    (sender,) = pair.b.senders
    pair.b.transport.sendto(b"yes?", sender)
    pair.world.run_for(1)

    assert pair.a.received == [b"yes?"]
    assert sender == pair.a.transport.get_extra_info("sockname")


def test_names_are_resolved_to_what_datagrams_show(pair: Pair) -> None:
    task = pair.loops[0].create_task(pair.loops[0].getaddrinfo("b", PORT, type=socket.SOCK_DGRAM))
    pair.world.run_for(1)
    ((_, kind, _, _, address),) = task.result()

    assert kind == socket.SOCK_DGRAM
    assert address == pair.b.transport.get_extra_info("sockname")


def test_a_name_that_no_machine_has_is_refused(pair: Pair) -> None:
    task = pair.loops[0].create_task(pair.loops[0].getaddrinfo("c", PORT))
    pair.world.run_for(1)

    assert isinstance(task.exception(), socket.gaierror)


def test_nothing_arrives_over_a_cut_link_then_or_later(pair: Pair) -> None:
    pair.network.cut(("a", "b"))
    assert pair.send(b"lost") == []
    pair.network.mend(("a", "b"))
    assert pair.send(b"after") == [b"after"]


def test_a_link_may_lose_some_and_double_others(pair: Pair) -> None:
    pair.network.change([("a", "b")], Link(loss=0.3, duplication=0.2))
    received = pair.send(*(b"%d" % number for number in range(200)))

    assert 100 < len(set(received)) < 180
    assert len(received) > len(set(received))


def test_datagrams_overtake_each_other(pair: Pair) -> None:
    received = pair.send(*(b"%03d" % number for number in range(50)))
    assert sorted(received) != received
    assert len(received) == 50


def test_a_port_without_a_process_takes_nothing(pair: Pair) -> None:
    pair.b.transport.close()
    assert pair.send(b"hello") == []
    assert pair.b.is_lost


def test_a_dead_process_takes_nothing(pair: Pair) -> None:
    pair.loops[1].kill()
    pair.network.process_died(pair.loops[1])
    assert pair.send(b"hello") == []


def test_what_comes_while_a_process_stands_still_waits_up_to_a_bound(pair: Pair) -> None:
    pair.loops[1].stop_running()
    assert pair.send(*[bytes(1_000)] * 1_000) == []
    pair.loops[1].go_on()
    pair.world.run_for(1)

    assert 100 < len(pair.b.received) < 300


def test_a_port_is_given_once(pair: Pair) -> None:
    again = pair.loops[0].create_task(pair.loops[0].create_datagram_endpoint(Mailbox, local_addr=("a", PORT)))
    pair.world.run_for(1)

    assert isinstance(again.exception(), OSError)

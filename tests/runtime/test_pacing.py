"""Connections of one machine are not paced, those of others are as the system wants them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.runtime.pacing import PACED, UNPACED, is_paced, unpace_local
from tests.runtime.connection_rig import HEARTBEAT, rig, run, until

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
ELSEWHERE = ("192.0.2.1", 9)


def way_of(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@pytest.fixture
def paced() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A listening socket that the system paces, and a connection that has come in by it."""
    if "bbr" not in AVAILABLE.read_text().split():
        pytest.skip("this kernel does not pace, or does not let us ask for it")
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
        held.enter_context(socket.create_connection(listening.getsockname()))
        accepted, _ = listening.accept()
        yield listening, held.enter_context(accepted)


def test_a_connection_that_stays_on_the_machine_is_not_paced(paced: tuple[socket.socket, socket.socket]) -> None:
    listening, accepted = paced
    assert is_paced(listening)
    assert way_of(accepted) == b"bbr"

    unpace_local(accepted, accepted.getsockname(), accepted.getpeername())

    assert way_of(accepted) == UNPACED


def test_a_connection_from_elsewhere_stays_as_it_is(paced: tuple[socket.socket, socket.socket]) -> None:
    _, accepted = paced

    unpace_local(accepted, accepted.getsockname(), ELSEWHERE)
    unpace_local(accepted, accepted.getsockname(), None)

    assert way_of(accepted) == b"bbr"


def test_a_system_that_does_not_pace_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, UNPACED)

        assert not is_paced(listening)


def test_a_socket_without_that_option_is_not_paced() -> None:
    with socket.socket(socket.AF_UNIX) as other:
        assert not is_paced(other)


def test_a_server_sends_unpaced_to_clients_on_its_machine() -> None:
    async def scenario() -> None:
        async with rig(HEARTBEAT) as server:
            await server.connect()
            await until(lambda: bool(server.server.connections))
            (connection,) = server.server.connections
            with socket.socket() as new:
                of_the_system = way_of(new)
            assert way_of(connection.socket) == (UNPACED if of_the_system.startswith(PACED) else of_the_system)

    run(scenario)

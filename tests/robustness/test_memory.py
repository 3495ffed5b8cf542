"""Clients that don't read, don't finish or send bombs cost bounded memory, and don't keep others from being served."""

import contextlib
import os
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from ottla.protocol.compression import Compression
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.record import Record
from ottla.protocol.records import build_batch
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually
from tests.robustness.raw_client import RawClient, create_topic, frame, is_served, produce

MB = 1_000_000


def _peak_bytes(node: NodeProcess) -> int:
    """The most memory that the process ever had."""
    for line in Path(f"/proc/{node.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell VmHWM")


@contextlib.contextmanager
def _stalled(bootstrap: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that will not read: small receive buffers, so that the kernel holds little for them."""
    host, _, port = bootstrap.rpartition(":")
    connections = []
    for _ in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        connections.append(connection)
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def _fetch(topic: str, max_bytes: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame(request, 11)


def _fill(bootstrap: str, topic: str, megabytes: int) -> None:
    batch = build_batch([Record(value=os.urandom(1000), timestamp_ms=1_600_000_000_000) for _ in range(500)])
    with RawClient(bootstrap) as client:
        for _ in range(megabytes * 2):
            assert produce(client, topic, batch).error_code == 0


def test_readers_that_do_not_read_cost_bounded_memory(node: NodeProcess, topic_name: str) -> None:
    with node:
        create_topic(node.bootstrap, topic_name)
        _fill(node.bootstrap, topic_name, 40)
        before = _peak_bytes(node)
        with _stalled(node.bootstrap, 20) as connections:
            for connection in connections:  # each asks for 2 GB and reads nothing of it
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    connection.send(_fetch(topic_name, 20 * MB) * 100)
            for _ in range(50):
                assert is_served(node.bootstrap)
            held = _peak_bytes(node) - before
            assert held < 20 * 30 * MB, f"{held / MB:.0f} MB for 20 stalled readers"
            _fill(node.bootstrap, topic_name, 1)


def test_a_stalled_reader_goes_on_where_it_stopped(node: NodeProcess, topic_name: str) -> None:
    with node:
        create_topic(node.bootstrap, topic_name)
        _fill(node.bootstrap, topic_name, 10)
        with RawClient(node.bootstrap) as client:
            client.send(_fetch(topic_name, 5 * MB) * 20)
            assert is_served(node.bootstrap)

            sizes = [len(client.receive_frame()) for _ in range(20)]

        assert all(size > 4 * MB for size in sizes)


def test_a_frame_costs_what_has_arrived_of_it_and_not_what_it_announces(node: NodeProcess) -> None:
    with node:
        before = _peak_bytes(node)
        with _stalled(node.bootstrap, 50) as connections:
            for connection in connections:
                connection.sendall(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
            for _ in range(20):
                assert is_served(node.bootstrap)

            assert _peak_bytes(node) - before < 60 * MB


def test_an_idle_connection_is_cheap(node: NodeProcess) -> None:
    with node:
        assert is_served(node.bootstrap)
        before = node.rss_bytes()
        with _stalled(node.bootstrap, 500):
            eventually(lambda: node.open_descriptors() > 500)
            assert is_served(node.bootstrap)
            each = (node.rss_bytes() - before) / 500
            assert each < 100_000, f"{each:.0f} bytes per idle connection"
        eventually(lambda: node.open_descriptors() < 100)
        assert is_served(node.bootstrap)


def test_connections_over_the_limit_are_closed_and_those_below_go_on(tmp_path: Path) -> None:
    limited = NodeProcess(tmp_path / "node", "--set", "max.connections=50")
    with limited, RawClient(limited.bootstrap) as first:
        assert first.socket
        with _stalled(limited.bootstrap, 200) as connections:
            closed = sum(_closes_at_once(connection) for connection in connections)
            assert closed >= 150
        eventually(lambda: _served_or_refused(limited.bootstrap))


def _closes_at_once(connection: socket.socket) -> bool:
    connection.settimeout(0.02)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def _served_or_refused(bootstrap: str) -> bool:
    try:
        return is_served(bootstrap)
    except (AssertionError, OSError):
        return False


def test_clients_that_vanish_leave_nothing_behind(node: NodeProcess) -> None:
    with node:
        assert is_served(node.bootstrap)
        before = node.open_descriptors()
        for _ in range(300):
            with RawClient(node.bootstrap) as client:
                client.send(struct.pack(">i", 5000) + b"half a frame")
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
        eventually(lambda: node.open_descriptors() <= before + 1)
        assert is_served(node.bootstrap)


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A gigabyte of zeros in a batch of a megabyte, announced as one record."""
    small = build_batch([Record(key=b"k", value=b"v", timestamp_ms=1_600_000_000_000)], compression=Compression.GZIP)
    compressor = zlib.compressobj(9, wbits=31)
    body = small[21:61] + b"".join(compressor.compress(bytes(1 << 20)) for _ in range(900)) + compressor.flush()
    length = struct.pack(">i", len(body) + 9)
    return small[:8] + length + small[12:17] + struct.pack(">I", google_crc32c.value(body)) + body


@pytest.mark.parametrize("config", [{}, {"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}])
def test_a_decompression_bomb_costs_bounded_memory(
    node: NodeProcess, topic_name: str, bomb: bytes, config: dict[str, str]
) -> None:
    with node:
        create_topic(node.bootstrap, topic_name, config=config)
        with RawClient(node.bootstrap) as client:
            produce(client, topic_name, bomb)

        assert is_served(node.bootstrap)
        assert _peak_bytes(node) < 250 * MB

"""Bad input and faults: the right status, in time, and a sentence."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import DiskFailedError, PortTakenError
from ottla.http.listener import HttpListener
from ottla.http.server import HttpServer
from tests.http_api.rig import HttpNode, error_of
from tests.interop.waiting import eventually

LIMITS = {
    "body_bytes_max": 10_000,
    "batch_records_max": 100,
    "request_timeout_ms": 500,
    "wait_ms_max": 1_000,
    "requests_max": 4,
    "streams_max": 1,
}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNode]:
    """A node with small limits."""
    with HttpNode(tmp_path_factory.mktemp("narrow"), http=LIMITS) as running:
        running.create("f", partitions=2)
        yield running


def raw(node: HttpNode, *pieces: bytes, timeout_s: float = 20.0) -> bytes:
    """What a client is answered that speaks as it likes."""
    assert node.listener is not None
    with socket.create_connection(("127.0.0.1", node.listener.port), timeout_s) as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.settimeout(timeout_s)
        received = b""
        while b"}}" not in received:
            piece = connection.recv(65_536)
            if not piece:
                break
            received += piece
        return received


def test_a_body_that_is_announced_too_large_is_413_before_it_is_sent(narrow: HttpNode) -> None:
    answer = raw(narrow, b"POST /topics/f/produce HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n")
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"body_too_large" in answer


def test_a_body_that_grows_too_large_is_413(narrow: HttpNode) -> None:
    head = b"POST /topics/f HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = raw(narrow, head, b"2000\r\n" + b"x" * 0x2000 + b"\r\n", b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_a_body_that_does_not_come_is_408(narrow: HttpNode) -> None:
    started = time.monotonic()
    answer = raw(narrow, b"POST /topics/f/produce HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert time.monotonic() - started < 10


def test_too_many_messages_are_413(narrow: HttpNode) -> None:
    answer = narrow.client.post("/topics/f/produce", json=[{"value": 1}] * 101)
    assert error_of(answer)[:2] == (413, "batch_too_large")


def test_a_wait_longer_than_allowed_is_cut(narrow: HttpNode) -> None:
    started = time.monotonic()
    assert narrow.values("f", partition=1, wait_ms=2_000_000) == []
    assert time.monotonic() - started < 10


def test_more_requests_than_allowed_are_429(narrow: HttpNode) -> None:
    def wait() -> int:
        return narrow.client.get("/topics/f/partitions/1/consume", params={"wait_ms": 1_000}).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = sorted(future.result() for future in [pool.submit(wait) for _ in range(12)])
    assert set(statuses) == {200, 429}


def test_more_tails_than_allowed_are_429(narrow: HttpNode) -> None:
    with narrow.client.stream("GET", "/topics/f/stream") as first:
        lines = first.iter_lines()  # kept: without it, the client would hang up
        assert next(lines).startswith(":")
        assert error_of(narrow.client.get("/topics/f/stream"))[:2] == (429, "too_many_streams")


def test_a_disk_that_failed_is_503_and_told_by_health(tmp_path: Path) -> None:
    with HttpNode(tmp_path) as node:
        node.create("d")
        node.produce("d", {"value": "safe"})

        node.in_node(lambda inner: setattr(inner.committer, "failed", DiskFailedError("the disk is gone")))
        answer = node.client.post("/topics/d/produce", json={"value": "lost"})
        assert error_of(answer) == (503, "kafka_storage_error", "KAFKA_STORAGE_ERROR")
        health = node.client.get("/health")
        assert health.status_code == 503
        assert "the disk is gone" in health.json()["why"][0]
        assert node.values("d") == ["safe"]
        node.in_node(lambda inner: setattr(inner.committer, "failed", None))


@pytest.mark.parametrize("body", [{"value": "one"}, [{"value": "several", "partition": index} for index in range(2)]])
def test_a_write_that_is_not_acknowledged_in_time_is_503(narrow: HttpNode, body: object) -> None:
    """The disk hangs: whoever waits is told, and what comes after it is served."""
    narrow.client.get("/health")

    def hang(inner: Any) -> bool:
        was_idle = not inner.committer._running
        inner.committer._running = True  # a commit that does not end, unless there is one that will
        return was_idle

    def go_on(inner: Any) -> None:
        inner.committer._running = False
        inner.committer._commit()

    eventually(lambda: narrow.in_node(hang))
    try:
        started = time.monotonic()
        answer = narrow.client.post("/topics/f/produce", json=body)
        assert error_of(answer) == (503, "request_timed_out", "REQUEST_TIMED_OUT")
        assert "not known whether it will last" in answer.json()["error"]["message"]
        assert answer.headers["retry-after"] == "1"
        assert time.monotonic() - started < 10
    finally:
        narrow.in_node(go_on)
    assert narrow.client.post("/topics/f/produce", json=body).status_code == 200


def test_no_request_hangs_whatever_it_waits_for(narrow: HttpNode) -> None:
    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    assert narrow.listener is not None
    assert narrow.listener.server is not None
    api = narrow.listener.server.api
    started = time.monotonic()
    for name, path in (
        ("consume", "/topics/f/partitions/0/consume"),
        ("health", "/health"),
        ("list_groups", "/consumer-groups"),
    ):
        narrow.in_node(lambda _, name=name: setattr(api, name, never))
        try:
            assert error_of(narrow.client.get(path)) == (503, "timed_out", None)
        finally:
            narrow.in_node(lambda _, name=name: delattr(api, name))
    assert time.monotonic() - started < 20
    assert narrow.listener.server.edge.requests == 0


def test_a_client_that_goes_away_leaves_nothing_behind(narrow: HttpNode) -> None:
    assert narrow.listener is not None
    assert narrow.listener.server is not None
    edge = narrow.listener.server.edge
    waits = b"GET /topics/f/partitions/1/consume?offset=latest&wait_ms=900 HTTP/1.1\r\nhost: x\r\n\r\n"
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", narrow.listener.port)) as connection:
            connection.sendall(waits)
            eventually(lambda: edge.requests > 0)
        eventually(lambda: edge.requests == 0, within_s=5)


def _nothing() -> HttpServer:
    raise AssertionError("nobody has connected")


def test_a_port_that_is_taken_is_told() -> None:
    async def bind_twice() -> None:
        first, second = HttpListener(_nothing), HttpListener(_nothing)
        first.bind(None, 0)
        with pytest.raises(PortTakenError, match="taken by another process"):
            second.bind(None, first.port)
        await first.close()

    asyncio.run(bind_twice())

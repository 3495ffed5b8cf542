"""Connections that are used in every way that HTTP/1.1 allows, and in some that it does not."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.http_api.rig import HttpNode
from tests.interop.waiting import eventually

WITHIN_S = 20.0
TOPIC = "k"
LIMITS = {"request_timeout_ms": 600, "idle_ms_max": 600, "connections_max": 5, "body_bytes_max": 200_000}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNode]:
    """A node that waits for nobody."""
    with HttpNode(tmp_path_factory.mktemp("strict"), http=LIMITS) as running:
        running.create(TOPIC)
        running.client.close()  # its idle connection counts
        yield running


@pytest.fixture(scope="module")
def patient(node: HttpNode) -> HttpNode:
    node.create(TOPIC)
    return node


class Line:
    """A client that speaks as it likes."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._file = connection.makefile("rb")

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self._file.readline(), 16):
                body += self._file.read(size)
                self._file.readline()
            self._file.readline()
        else:
            body = self._file.read(int(headers.get("content-length", "0")))
        is_json = headers.get("content-type", "").startswith("application/json")
        return status, headers, json.loads(body) if is_json and body else body

    def code(self) -> tuple[int, str]:
        status, _, told = self.answer()
        return status, told["error"]["code"]

    def is_closed(self) -> bool:
        """Waits for the other side to hang up."""
        return self._file.read(1) == b""


@contextmanager
def line_to(node: HttpNode) -> Iterator[Line]:
    assert node.listener is not None
    with socket.create_connection(("127.0.0.1", node.listener.port), WITHIN_S) as connection:
        yield Line(connection)


def post(value: Any, *headers: str, topic: str = TOPIC, version: str = "1.1") -> bytes:
    body = json.dumps({"value": value}).encode()
    lines = [f"POST /topics/{topic}/produce HTTP/{version}", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def test_a_request_may_come_byte_by_byte(patient: HttpNode) -> None:
    with line_to(patient) as line:
        line.send(*(bytes((byte,)) for byte in post("slow")))
        assert line.answer()[0] == 200


def test_requests_in_one_packet_are_answered_in_order_whoever_serves_them(patient: HttpNode) -> None:
    patient.create("k-order")
    consume = "/topics/k-order/partitions/0/consume"
    with line_to(patient) as line:
        line.send(
            post("0", topic="k-order")
            + get("/topics/k-order")
            + post("1", topic="k-order")
            + get(consume)
            + get("/health")
            + post("2", topic="k-order")
            + get("/nowhere")
        )
        answers = [line.answer() for _ in range(7)]
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 200, 200, 404]
    assert [answers[index][2]["offset"] for index in (0, 2, 5)] == [0, 1, 2]
    assert len(answers[3][2]["records"]) == 2


def test_one_connection_serves_both_kinds_of_routes_in_turn(patient: HttpNode) -> None:
    with line_to(patient) as line:
        for _ in range(3):
            line.send(post("hot"))
            assert line.answer()[0] == 200
            line.send(get("/topics"))
            assert line.answer()[0] == 200


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_a_body_in_chunks_is_taken(patient: HttpNode, pieces: int) -> None:
    head = f"POST /topics/{TOPIC}/produce HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    body = json.dumps({"value": "x" * 3_000}).encode()
    size = -(-len(body) // pieces)
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    with line_to(patient) as line:
        line.send(head.encode(), *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n")
        assert line.answer()[0] == 200
        line.send(post("after"))
        assert line.answer()[0] == 200


def test_who_waits_to_be_told_to_go_on_is_told(patient: HttpNode) -> None:
    head, _, body = post("later", "expect: 100-continue").partition(b"\r\n\r\n")
    with line_to(patient) as line:
        line.send(head + b"\r\n\r\n")
        assert line.answer()[0] == 100
        line.send(body)
        assert line.answer()[0] == 200


@pytest.mark.parametrize("request_", [post("bye", "connection: close"), post("old", version="1.0")])
def test_the_connection_is_closed_where_the_client_wants_that(patient: HttpNode, request_: bytes) -> None:
    with line_to(patient) as line:
        line.send(request_)
        assert line.answer()[0] == 200
        assert line.is_closed()


def test_a_connection_may_become_a_websocket_after_other_requests(patient: HttpNode) -> None:
    patient.create("k-socket")
    patient.produce("k-socket", {"value": "first"})
    assert patient.listener is not None
    connection = socket.create_connection(("127.0.0.1", patient.listener.port), WITHIN_S)
    line = Line(connection)
    line.send(post("second", topic="k-socket"), get("/topics/k-socket/partitions/0/consume"))
    assert [line.answer()[0] for _ in range(2)] == [200, 200]
    with connect(
        f"{patient.url.replace('http', 'ws')}/topics/k-socket/stream?offset=earliest", sock=connection
    ) as told:
        assert [json.loads(told.recv(timeout=WITHIN_S))["value"] for _ in range(2)] == ["first", "second"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on, as TLS begins\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /topics/k/produce HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /topics/k/produce HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /topics/k/produce HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"POST /topics/k/produce HTTP/9.9\r\n\r\n",
    ],
)
def test_what_is_no_request_is_400_and_the_end(patient: HttpNode, garbage: bytes) -> None:
    with line_to(patient) as line:
        line.send(garbage)
        assert line.code() == (400, "bad_request")
        assert line.is_closed()


def test_an_endless_head_is_431(patient: HttpNode) -> None:
    with line_to(patient) as line:
        line.send(b"GET / HTTP/1.1\r\n", *(b"x-%d: %s\r\n" % (n, b"y" * 1_000) for n in range(70)))
        assert line.code() == (431, "head_too_large")


def test_a_body_that_is_too_large_is_413_though_it_is_sent_to_the_end(strict: HttpNode) -> None:
    """The answer is not lost to what the client still sends."""
    for path in (f"/topics/{TOPIC}/produce", "/topics/other"):
        with line_to(strict) as line:
            line.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n".encode())
            line.send(*(b"x" * 100_000 for _ in range(30)))
            assert line.code() == (413, "body_too_large")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"POST /topics/k/pro", "slow_head"),
        (b"GET /health HTTP/1.1\r\nhost: x\r\n", "slow_head"),
        (b"POST /topics/k/produce HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{", "slow_body"),
        (b"POST /topics/new HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{", "slow_body"),
    ],
)
def test_a_request_that_does_not_come_to_an_end_is_408(strict: HttpNode, sent: bytes, code: str) -> None:
    started = time.monotonic()
    with line_to(strict) as line:
        line.send(sent)
        assert line.code() == (408, code)
    assert time.monotonic() - started < 10


def test_bytes_that_drip_do_not_buy_time(strict: HttpNode) -> None:
    """Slowloris: one byte now and then, for ever."""
    started = time.monotonic()
    with line_to(strict) as line:
        line.socket.settimeout(0.05)
        line.send(b"GET /health HTTP/1.1\r\n")
        answered = b""
        while not answered and time.monotonic() - started < WITHIN_S:
            line.send(b"x: y\r\n")
            try:
                answered = line.socket.recv(1_000)
            except TimeoutError:
                continue
    assert b" 408 " in answered.split(b"\r\n")[0]
    assert time.monotonic() - started < 10


def test_the_start_of_a_second_request_does_not_keep_a_connection(strict: HttpNode) -> None:
    with line_to(strict) as line:
        line.send(post("first") + b"GET /hea")
        assert line.answer()[0] == 200
        assert line.code() == (408, "slow_head")
    with line_to(strict) as line:
        line.send(get("/topics") + b"GET /hea")
        assert line.answer()[0] == 200
        assert line.is_closed()


def test_an_idle_connection_is_closed(strict: HttpNode) -> None:
    with line_to(strict) as never_used, line_to(strict) as used:
        used.send(post("x"))
        assert used.answer()[0] == 200
        assert used.is_closed()
        assert never_used.is_closed()


def test_a_connection_too_many_is_429(strict: HttpNode) -> None:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:  # those of other tests end one after the other
        with ExitStack() as open_lines:
            lines = [open_lines.enter_context(line_to(strict)) for _ in range(LIMITS["connections_max"] + 1)]
            if lines[-1].code() == (429, "too_many_connections"):
                lines[0].send(post("those before go on"))
                assert lines[0].answer()[0] == 200
                return
    pytest.fail("no connection was refused")


def test_a_client_that_takes_nothing_of_its_answer_is_hung_up_on(tmp_path: Path) -> None:
    with HttpNode(tmp_path, http={"request_timeout_ms": 600, "answer_bytes_max": 16_000_000}) as node:
        node.create("k-much")
        for _ in range(16):
            node.produce("k-much", *({"value": "x" * 5_000} for _ in range(100)))
        with line_to(node) as line:
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            eventually(lambda: _connections(node) == 2)  # this one, and that of the client
            line.send(get("/topics/k-much/partitions/0/consume?limit=2000"))
            eventually(lambda: _connections(node) == 1)


def _connections(node: HttpNode) -> int:
    assert node.listener is not None
    server = node.listener.server
    assert server is not None
    return int(node.in_node(lambda _: len(server.connections)))

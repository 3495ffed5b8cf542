"""One request and one answer, and brokers that answer badly."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ottla.cli.failures import CommandError, ExitCode
from ottla.cli.wire import ask, error_text
from ottla.errors import ProtocolError
from ottla.protocol.codec import encode
from ottla.protocol.framing import FRAME_SIZE
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


@contextmanager
def broker(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listens, and lets `answer` deal with the second connection: the first only looks whether somebody is there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            listener.accept()[0].close()
            connection = listener.accept()[0]
            with connection:
                connection.recv(4_096)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def quotas_at(bootstrap: str) -> DescribeClientQuotasResponse:
    return ask(bootstrap, DescribeClientQuotasRequest(), DescribeClientQuotasResponse)


def test_an_answer_in_pieces_is_put_together() -> None:
    response = DescribeClientQuotasResponse(error_code=35, error_message="no", entries=None)
    answer = b"\x00\x00\x00\x01" + b"\x00" + encode(response, 1)  # correlation id, no tagged fields
    frame = FRAME_SIZE.pack(len(answer)) + answer

    def byte_by_byte(connection: socket.socket) -> None:
        for at in range(len(frame)):
            connection.sendall(frame[at : at + 1])

    with broker(byte_by_byte) as bootstrap:
        assert quotas_at(bootstrap) == response


def test_a_broker_that_hangs_up_has_not_answered() -> None:
    with broker(lambda connection: None) as bootstrap, pytest.raises(CommandError) as caught:
        quotas_at(bootstrap)

    assert caught.value.exit_code == ExitCode.UNREACHABLE


@pytest.mark.parametrize("size", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"])
def test_an_absurd_size_is_not_believed(size: bytes) -> None:
    with broker(lambda connection: connection.sendall(size)) as bootstrap, pytest.raises(ProtocolError):
        quotas_at(bootstrap)


def test_errors_are_told_in_the_brokers_words() -> None:
    assert error_text(42, "what?") == "what? (INVALID_REQUEST)"
    assert error_text(42, None) == "INVALID_REQUEST"
    assert error_text(9999, "") == "error 9999"

"""One request, one answer, over a connection of its own: for what librdkafka has no call for."""

import socket
from typing import TypeVar

from ottla.cli.connection import CLIENT_ID, CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_MS, require_reachable
from ottla.cli.failures import unreachable_failure
from ottla.errors import ErrorCode, ProtocolError
from ottla.protocol.codec import decode
from ottla.protocol.framing import (
    FRAME_SIZE,
    encode_request,
    parse_response_header,
    response_header_is_flexible,
)
from ottla.protocol.schema import Request, Response

Answer = TypeVar("Answer", bound=Response)

ANSWER_BYTES_MAX = 100 * 1024 * 1024


def ask(bootstrap: str, request: Request, answer: type[Answer]) -> Answer:
    """Send `request`, in its newest version, to the first broker that can be reached."""
    address = require_reachable(bootstrap)
    version = request.versions[1]
    frame = b"".join(encode_request(request, version, correlation_id=1, client_id=CLIENT_ID))
    try:
        with socket.create_connection(address, CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(REQUEST_TIMEOUT_MS / 1_000)
            connection.sendall(frame)
            body = _read_frame(connection)
    except OSError as error:
        raise unreachable_failure(f"{address[0]}:{address[1]}: {error.strerror or error}") from error
    _, at = parse_response_header(memoryview(body), response_header_is_flexible(type(request), version))
    return decode(answer, version, memoryview(body)[at:])


def error_text(code: int, message: str | None) -> str:
    """What a broker's error means, in its own words if it sent any."""
    known = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    return f"{message} ({known})" if message else known


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = FRAME_SIZE.unpack(_read(connection, FRAME_SIZE.size))
    if not 0 < size <= ANSWER_BYTES_MAX:
        raise ProtocolError(f"the broker announced an answer of {size} bytes")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("it closed the connection without an answer")
        received += piece
    return bytes(received)

"""A request and its answer over a socket that waits: for what librdkafka has no call for."""

import socket
from typing import TypeVar

from ottla.errors import ProtocolError
from ottla.protocol.codec import decode
from ottla.protocol.framing import FRAME_SIZE, encode_request, parse_response_header, response_header_is_flexible
from ottla.protocol.schema import Request, Response

Answer = TypeVar("Answer", bound=Response)

ANSWER_BYTES_MAX = 100 * 1024 * 1024


def exchange(
    connection: socket.socket,
    request: Request,
    answer: type[Answer],
    *,
    version: int,
    client_id: str,
    correlation_id: int = 1,
) -> Answer:
    """OSError if the connection breaks: what became of the request is not known then."""
    frame = encode_request(request, version, correlation_id=correlation_id, client_id=client_id)
    connection.sendall(b"".join(frame))
    body = memoryview(_read_frame(connection))
    found, at = parse_response_header(body, response_header_is_flexible(type(request), version))
    if found != correlation_id:
        raise ProtocolError(f"the broker answered request {found}, not {correlation_id}")
    return decode(answer, version, body[at:])


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

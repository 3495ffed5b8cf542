"""One request, one answer, over a connection of its own: for what librdkafka has no call for."""

import socket
from typing import TypeVar

from ottla.cli.connection import CLIENT_ID, CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_MS, require_reachable
from ottla.cli.failures import unreachable_failure
from ottla.client.wire import exchange
from ottla.errors import ErrorCode
from ottla.protocol.schema import Request, Response

Answer = TypeVar("Answer", bound=Response)


def ask(bootstrap: str, request: Request, answer: type[Answer]) -> Answer:
    """Send `request`, in its newest version, to the first broker that can be reached."""
    address = require_reachable(bootstrap)
    try:
        with socket.create_connection(address, CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(REQUEST_TIMEOUT_MS / 1_000)
            return exchange(connection, request, answer, version=request.versions[1], client_id=CLIENT_ID)
    except OSError as error:
        raise unreachable_failure(f"{address[0]}:{address[1]}: {error.strerror or error}") from error


def error_text(code: int, message: str | None) -> str:
    """What a broker's error means, in its own words if it sent any."""
    known = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    return f"{message} ({known})" if message else known

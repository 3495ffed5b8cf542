"""Reaching the broker that a command is about.

librdkafka keeps trying for half a minute where nobody listens, and says so in its log. A person at a shell wants to
know at once, in one sentence: so the addresses are tried with a plain connection first, and its log is kept quiet.
"""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.cli.failures import CommandError, ExitCode, unreachable_failure
from ottla.client.admin import Admin
from ottla.client.settings import AdminConfig

CLIENT_ID = "ottla-cli"
CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_MS = 15_000


@contextmanager
def admin(bootstrap: str) -> Iterator[Admin]:
    """An Admin for the length of one command."""
    require_reachable(bootstrap)
    config = AdminConfig(bootstrap_servers=bootstrap, client_id=CLIENT_ID, request_timeout_ms=REQUEST_TIMEOUT_MS)
    with Admin(config) as opened:
        yield opened


def require_reachable(bootstrap: str) -> tuple[str, int]:
    """The first address that accepts a connection. CommandError with the reason if none does."""
    logging.getLogger("ottla.client").setLevel(logging.CRITICAL + 1)
    reasons = []
    for host, port in addresses(bootstrap):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return host, port
    raise unreachable_failure("; ".join(reasons))


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """`host:port,[::1]:9092` taken apart."""
    parsed = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, found, port = address.rpartition(":")
        if not found or not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise CommandError(f"--bootstrap {address!r} is not HOST:PORT", exit_code=ExitCode.USAGE)
        parsed.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not parsed:
        raise CommandError("--bootstrap names no broker", exit_code=ExitCode.USAGE)
    return parsed

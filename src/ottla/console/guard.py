"""Who may speak to the console.

A page elsewhere can't read what the console answers, unless its own name was made to lead to this machine (DNS
rebinding): then the browser names that host, and a console that is for this machine alone answers to no other names
than the loopback's. WebSockets may be opened from anywhere to anywhere, so their page must be the console's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from ottla.http.edge import Scope, Send

LOCALHOST = "localhost"
FORBIDDEN = "This console is for this machine alone: open it as localhost or 127.0.0.1, or start it with --address.\n"
POLICY = 1008


def is_allowed(scope: Scope, *, loopback_only: bool) -> bool:
    if loopback_only and not is_loopback(_name(_header(scope["headers"], b"host"))):
        return False
    return scope["type"] != "websocket" or _is_own(scope["headers"])


def is_loopback(name: str) -> bool:
    if name.lower() == LOCALHOST:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Programs that are no browsers name no origin."""
    origin = _header(headers, b"origin")
    return not origin or origin.partition("://")[2] == _header(headers, b"host")


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == wanted), "")


def _name(host: str) -> str:
    """`localhost:8090`, `[::1]:8090` without the port."""
    name, _, port = host.rpartition(":")
    without = name if name and port.isdigit() else host
    return without.removeprefix("[").removesuffix("]")


async def forbid(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": POLICY})
        return
    body = FORBIDDEN.encode()
    kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": kind})
    await send({"type": "http.response.body", "body": body})

"""The HTTP API of a node: from the node's start to its stop. Loads nothing of the API itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.errors import PortTakenError
from ottla.http.listener import HttpListener

if TYPE_CHECKING:
    from ottla.http.server import HttpServer
    from ottla.runtime.node import Node

log = logging.getLogger(__name__)

PORTS_TRIED = 10


def serve_node(node: Node, *, port_if_free: int | None = None) -> HttpListener | None:
    """To be called when the node serves; None where there is to be no HTTP.

    Where the config names no port, `port_if_free` or one of those after it is taken, so that several nodes on one
    machine each have one; if none is free, the node goes without. PortTakenError if it is the config's.
    """
    config = node.config.http
    port = port_if_free if config.port is None else config.port
    if port is None:
        return None
    listener = HttpListener(lambda: _build(node))
    if config.port is not None:
        listener.bind(config.address, port)
    elif not _bind_to_any(listener, config.address, range(port, port + PORTS_TRIED)):
        log.info("there is no HTTP API: ports %d to %d are taken", port, port + PORTS_TRIED - 1)
        return None
    listener.serve()
    log.info("the HTTP API is at http://%s:%d", config.address or "127.0.0.1", listener.port)
    return listener


def _bind_to_any(listener: HttpListener, address: str | None, ports: Iterable[int]) -> bool:
    for port in ports:
        with suppress(PortTakenError):
            listener.bind(address, port)
            return True
    return False


def _build(node: Node) -> HttpServer:
    from ottla.http.api import Api
    from ottla.http.of_node import NodeSurroundings
    from ottla.http.server import HttpServer
    from ottla.http.ways import NodeWays

    surroundings = NodeSurroundings(node)
    server = HttpServer(Api(NodeWays(node), node.config.http, node.clock, surroundings))
    surroundings.attach(server.api, server.edge)
    return server

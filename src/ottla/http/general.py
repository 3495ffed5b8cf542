"""All routes but the hot ones: FastAPI on uvicorn's protocol, for connections that are served by `Connection`.

uvicorn's own server is not used: the node accepts connections, looks after slow ones and ends them itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ottla.http.edge import encode
from ottla.http.errors import bad_request

if TYPE_CHECKING:
    from ottla.http.connection import Connection
    from ottla.http.edge import Asgi


class Framework:
    """What all connections share."""

    def __init__(self, app: Asgi) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # of bad requests, clients are told
        self.config = uvicorn.Config(
            app,
            loop="none",
            http=HttpToolsProtocol,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
        )
        self.config.load()
        self.state = ServerState()

    def serve(self, connection: Connection) -> FrameworkConnection:
        return FrameworkConnection(self, connection)

    def shut_down(self) -> None:
        """WebSockets are not looked after by anybody else."""
        for each in list(self.state.connections):
            each.shutdown()


class FrameworkConnection(HttpToolsProtocol):
    """Tells when it has nothing more to do, so that the connection's next request may be for a hot route."""

    def __init__(self, framework: Framework, connection: Connection) -> None:
        super().__init__(config=framework.config, server_state=framework.state, app_state={})
        self._connection = connection
        self._requests = 0
        """Begun, and not answered."""

    @property
    def is_idle(self) -> bool:
        """It waits for the head of a request."""
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        self._requests += 1
        super().on_message_begin()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._requests -= 1
        if not self._requests and not self.cycle.more_body:
            self._connection.came_back()

    def timeout_keep_alive_handler(self) -> None:
        """Idle connections are looked after elsewhere."""

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._connection.left()

    def send_400_response(self, msg: str) -> None:
        body = encode(bad_request("This is not an HTTP request that can be read.").body())
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: "
        self.transport.write(b"%s%d\r\n\r\n%s" % (head, len(body), body))
        self.transport.close()

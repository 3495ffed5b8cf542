"""Requests from inside the process: the same handlers as for clients, without the wire.

For a program that hosts the node it talks to (`ottla.embedded`). Only to be used in the node's thread.
"""

from __future__ import annotations

from typing import Any

from ottla.errors import BrokerError
from ottla.protocol.schema import Request
from ottla.runtime.dispatch import Router
from ottla.services import Deferred, RequestContext, Services


class LocalDoor:
    """Serves requests as if a client on this machine had sent them."""

    def __init__(self, router: Router, services: Services, *, client_id: str = "embedded") -> None:
        self._router = router
        self._context = RequestContext(services, "127.0.0.1")
        self._context.client_id = client_id

    def handle(self, request: Request, api_version: int | None = None) -> Deferred[Any]:
        """The answer, or the BrokerError with which it was refused. In the newest version if none is given."""
        if api_version is None:
            api_version = self._router.newest(request)
        route = self._router.routes.get(request.api_key << 16 | api_version)
        if route is None:
            route = self._router.resolve(request.api_key, api_version)
        context = self._context
        context.api_version = api_version
        context.now_ms = context.services.clock.now_ms()
        try:
            answer = route.handler(request, context)
        except BrokerError as error:
            refused: Deferred[Any] = Deferred()
            refused.fail(error)
            return refused
        if isinstance(answer, Deferred):
            return answer
        ready: Deferred[Any] = Deferred()
        ready.complete(answer)
        return ready

"""Which handler serves which API. What is registered is what ApiVersions advertises: there is no second table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from ottla.errors import invariant
from ottla.handlers.forwarding import on_the_controller
from ottla.ports import Bytes
from ottla.protocol.schema import Request, Response
from ottla.services import Deferred, RequestContext
from ottla.values import value

Handler = Callable[[Any, RequestContext], "Response | Deferred[Any] | None"]
H = TypeVar("H", bound=Callable[..., Any])

NOT_TAKEN: Final = object()
"""What a short way says of a request that must go the long way."""


class ShortWay(Protocol):
    """Serves one version of an API without decoding, where a request is like one that was decoded before."""

    def serve(self, frame: Bytes, at: int, ctx: RequestContext) -> Any:
        """As a handler, given the frame and where the body begins. An answer may be encoded already: bytes."""

    def learn(self, request: Any, frame: Bytes, at: int, ctx: RequestContext) -> None:
        """What came the long way, to know it again. The frame is only there during the call."""


@value
class Api:
    """One API as this node serves it."""

    key: int
    request: type[Request]
    handler: Handler
    versions: tuple[int, int]
    advertised: tuple[int, int]
    """Differs from `versions` only for Produce, where clients need to see versions that are then refused."""
    short_way: Callable[[int], ShortWay | None] | None = None
    """By version, for a node of its own."""


_APIS: dict[int, Api] = {}


def handles(
    request: type[Request], *, versions: tuple[int, int] | None = None, controller: bool = False
) -> Callable[[H], H]:
    """Register a handler for a request class; `versions` narrows the range that the message table knows.

    `controller`: only the active controller can serve it; other nodes send the request on (see `forwarding`).
    """

    def register(handler: H) -> H:
        key: int = request.api_key
        invariant(key not in _APIS, f"two handlers for API {key}")
        low, high = versions or request.versions
        advertised = (request.advertised_from if versions is None else low, high)
        served = on_the_controller(handler, request) if controller else handler
        _APIS[key] = Api(key=key, request=request, handler=served, versions=(low, high), advertised=advertised)
        return handler

    return register


def short_way(request: type[Request]) -> Callable[[H], H]:
    """Register the short way of an API that has a handler."""

    def register(of_version: H) -> H:
        _APIS[request.api_key] = replace(_APIS[request.api_key], short_way=of_version)
        return of_version

    return register


def apis() -> Mapping[int, Api]:
    """Every API that has a handler, by key. Complete once `ottla.handlers.all` is imported."""
    return _APIS

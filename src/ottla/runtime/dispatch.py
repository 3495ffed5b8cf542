"""From a frame to an answer: which handler, which codec, and what to say when it fails.

One `Route` per (API, version) is resolved at first use and holds everything that serving a request needs, so that the
hot path is one dictionary lookup and four calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import BrokerError, ErrorCode, ProtocolError
from ottla.handlers.registry import Api, Handler, ShortWay
from ottla.observability.metrics import Histogram
from ottla.protocol.codec import codec_for
from ottla.protocol.framing import request_header_is_flexible, response_header_is_flexible
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.schema import Request, Response
from ottla.runtime.disk import FileStretch
from ottla.values import value

log = logging.getLogger(__name__)

Chunk = bytes | memoryview | FileStretch
"""A piece of an answer."""


class RouteFigures:
    """What connections count as they serve requests."""

    __slots__ = ("failures", "latency")

    def __init__(self) -> None:
        self.failures = 0
        """Requests that were refused as a whole; what is refused in parts is told in the answer alone."""
        self.latency = Histogram()
        """From the whole request to its answer, waiting included."""


@value
class Route:
    """How one version of one API is served, and how often it was."""

    request: type[Request]
    api_key: int
    api_version: int
    flexible_request: bool
    flexible_response: bool
    handler: Handler
    decode: Callable[[memoryview, int], tuple[Any, int]]
    encode: Callable[[Any, list[Chunk]], None]
    figures: RouteFigures
    short_way: ShortWay | None

    def failure(self, error: BrokerError) -> Response | None:
        """The answer that tells of `error`; None if this API's answer has no place for one."""
        response: Any = self.request.response
        fields = response.field_names()
        if "error_code" not in fields:
            return None
        told: dict[str, Any] = {"error_code": int(error.code)}
        if "error_message" in fields:
            told["error_message"] = error.message or error.code.name
        answer: Response = response(**told)
        return answer


class Router:
    """The routes of a node, by API key and version."""

    def __init__(self, apis: Mapping[int, Api]) -> None:
        self._apis = apis
        self.routes: dict[int, Route] = {}
        """By API key << 16 | version; those that were resolved so far."""

    def resolve(self, api_key: int, api_version: int) -> Route:
        """Raises ProtocolError for an API or a version that this node does not serve."""
        api = self._apis.get(api_key)
        if api is None:
            raise ProtocolError(f"API {api_key} is not served")
        low, high = api.versions
        if not low <= api_version <= high:
            raise ProtocolError(f"{api.request.__name__} version {api_version} is not served ({low} to {high} are)")
        route = self.routes[api_key << 16 | api_version] = Route(
            request=api.request,
            api_key=api_key,
            api_version=api_version,
            flexible_request=request_header_is_flexible(api.request, api_version),
            flexible_response=response_header_is_flexible(api.request, api_version),
            handler=api.handler,
            decode=codec_for(api.request, api_version).decode,
            encode=codec_for(api.request.response, api_version).encode,
            figures=RouteFigures(),
            short_way=None if api.short_way is None else api.short_way(api_version),
        )
        return route

    def newest(self, request: Request) -> int:
        """The highest version in which this node serves the API."""
        api = self._apis.get(request.api_key)
        if api is None:
            raise ProtocolError(f"API {request.api_key} is not served")
        return api.versions[1]

    def unsupported_version_route(self) -> Route:
        """A client that asks for ApiVersions in a version of the future is answered in version 0 (KIP-511)."""
        return self.resolve(ApiVersionsRequest.api_key, 0)


def server_error(route: Route, error: Exception) -> BrokerError:
    """A bug of ours, told to the client without details and to the operator with all of them."""
    log.error("%s v%d failed", route.request.__name__, route.api_version, exc_info=error)
    return BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR)

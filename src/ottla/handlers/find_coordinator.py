"""FindCoordinator: which node looks after a group."""

from __future__ import annotations

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.services import Deferred, RequestContext, Services

GROUP = 0
TRANSACTION = 1
MANY_KEYS_FROM = 4


@handles(FindCoordinatorRequest)
def find_coordinator(
    request: FindCoordinatorRequest, ctx: RequestContext
) -> FindCoordinatorResponse | Deferred[FindCoordinatorResponse]:
    keys = request.coordinator_keys if ctx.api_version >= MANY_KEYS_FROM else [request.key]
    if request.key_type == GROUP:
        many, services = ctx.api_version >= MANY_KEYS_FROM, ctx.services
        return ctx.groups.ensure_topic().then(lambda _: _response([_here(key, services) for key in keys], many=many))
    kind = "transactions" if request.key_type == TRANSACTION else f"coordinators of type {request.key_type}"
    refusal = BrokerError(ErrorCode.INVALID_REQUEST, f"this node does not serve {kind}")
    return _response([_refused(key, refusal) for key in keys], many=ctx.api_version >= MANY_KEYS_FROM)


def _here(key: str, services: Services) -> Coordinator:
    broker = services.image.brokers[services.config.node_id]
    endpoint = broker.endpoints[0]
    return Coordinator(key=key, node_id=broker.broker_id, host=endpoint.host, port=endpoint.port)


def _refused(key: str, error: BrokerError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message)


def _response(coordinators: list[Coordinator], *, many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )

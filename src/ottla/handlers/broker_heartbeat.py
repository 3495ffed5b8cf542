"""BrokerHeartbeat: a broker is alive, and asks to be let into service or out of it."""

from ottla.errors import BrokerError
from ottla.handlers.broker_calls import ask_at
from ottla.handlers.registry import handles
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.services import Deferred, RequestContext


@handles(BrokerHeartbeatRequest)
def broker_heartbeat(request: BrokerHeartbeatRequest, ctx: RequestContext) -> Deferred[BrokerHeartbeatResponse]:
    return ask_at(
        ctx, lambda controller, now_ms: controller.heartbeat(request, now_ms), lambda response: response, _refused
    )


def _refused(error: BrokerError) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=error.code)

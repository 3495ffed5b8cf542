"""UnregisterBroker: a broker will not come back."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.broker_calls import ask_at
from ottla.handlers.registry import handles
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.services import Deferred, RequestContext


@handles(UnregisterBrokerRequest, controller=True)
def unregister_broker(request: UnregisterBrokerRequest, ctx: RequestContext) -> Deferred[UnregisterBrokerResponse]:
    return ask_at(ctx, lambda controller, _: controller.unregister_broker(request.broker_id), _granted, _refused)


def _granted(is_done: bool) -> UnregisterBrokerResponse:
    if not is_done:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            error_message="Not all of its partitions are changed yet: try again.",
        )
    return UnregisterBrokerResponse(error_message=None)


def _refused(error: BrokerError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=str(error))

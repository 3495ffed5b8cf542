"""BrokerRegistration: a broker that starts makes itself known, and gets the epoch that names it from then on."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.broker_calls import ask_at
from ottla.handlers.registry import handles
from ottla.metadata.brokers import UNFINISHED, BrokerRegistration
from ottla.metadata.image import Endpoint
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.services import Deferred, RequestContext


@handles(BrokerRegistrationRequest)
def broker_registration(
    request: BrokerRegistrationRequest, ctx: RequestContext
) -> Deferred[BrokerRegistrationResponse] | BrokerRegistrationResponse:
    if request.cluster_id != ctx.services.cluster_id:
        return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    registration = _registration(request)
    return ask_at(ctx, lambda controller, now_ms: controller.register_broker(registration, now_ms), _granted, _refused)


def _registration(request: BrokerRegistrationRequest) -> BrokerRegistration:
    """It starts fenced, and comes into service by its heartbeats."""
    return BrokerRegistration(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        endpoints=[
            Endpoint(listener.name, listener.host, listener.port, listener.security_protocol)
            for listener in request.listeners
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs,
        features={
            feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
        },
    )


def _granted(epoch: int) -> BrokerRegistrationResponse:
    if epoch == UNFINISHED:
        return BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
    return BrokerRegistrationResponse(broker_epoch=epoch)


def _refused(error: BrokerError) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error.code)

"""AlterClientQuotas: set and remove quotas of users, clients and addresses."""

from ottla.errors import BrokerError
from ottla.handlers.controller_calls import ask_controller
from ottla.handlers.registry import handles
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from ottla.services import Deferred, RequestContext


@handles(AlterClientQuotasRequest, controller=True)
def alter_client_quotas(request: AlterClientQuotasRequest, ctx: RequestContext) -> Deferred[AlterClientQuotasResponse]:
    return ask_controller(
        ctx, lambda controller: controller.alter_client_quotas(request), lambda error: _refused(request, error)
    )


def _refused(request: AlterClientQuotasRequest, error: BrokerError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=error.code, error_message=str(error), entity=entry.entity)
            for entry in request.entries
        ]
    )

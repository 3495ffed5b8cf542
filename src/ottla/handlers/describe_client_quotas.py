"""DescribeClientQuotas: the quotas of all users, clients and addresses that a filter lets through."""

from ottla.handlers.registry import handles
from ottla.metadata import client_quotas
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla.services import RequestContext


@handles(DescribeClientQuotasRequest)
def describe_client_quotas(request: DescribeClientQuotasRequest, ctx: RequestContext) -> DescribeClientQuotasResponse:
    return client_quotas.describe_client_quotas(request, ctx.image)

"""DescribeConfigs: the configs of topics and of this broker, where each value comes from and what it means."""

from ottla.handlers.registry import handles
from ottla.metadata import config_view
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.services import RequestContext


@handles(DescribeConfigsRequest)
def describe_configs(request: DescribeConfigsRequest, ctx: RequestContext) -> DescribeConfigsResponse:
    return config_view.describe_configs(request, ctx.image, ctx.config)

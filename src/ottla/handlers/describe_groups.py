"""DescribeGroups: state, members and assignments of groups."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import BrokerError
from ottla.groups.describe import described_as_failed
from ottla.groups.shard import Caller
from ottla.handlers.group_calls import ask, caller
from ottla.handlers.operations import ALTER_CONFIGS, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, if_asked
from ottla.handlers.registry import handles
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.services import Deferred, RequestContext, gather

GROUP_OPERATIONS = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS


@handles(DescribeGroupsRequest)
def describe_groups(request: DescribeGroupsRequest, ctx: RequestContext) -> Deferred[DescribeGroupsResponse]:
    who = caller(ctx)
    operations = if_asked(GROUP_OPERATIONS, request.include_authorized_operations)
    return gather([_describe(group_id, who, operations, ctx) for group_id in request.groups], _response)


def _describe(group_id: str, who: Caller, operations: int, ctx: RequestContext) -> Deferred[DescribedGroup]:
    return ask(
        ctx,
        group_id,
        lambda shard, _, now_ms: shard.describe_group(group_id, who, operations),
        refused=lambda error: described_as_failed(group_id, error),
    )


def _response(groups: Sequence[DescribedGroup | BrokerError]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[group for group in groups if not isinstance(group, BrokerError)])

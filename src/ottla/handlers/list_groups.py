"""ListGroups: the groups that this node coordinates, by state and type if asked."""

from __future__ import annotations

from ottla.handlers.registry import handles
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.services import RequestContext


@handles(ListGroupsRequest)
def list_groups(request: ListGroupsRequest, ctx: RequestContext) -> ListGroupsResponse:
    return ListGroupsResponse(
        groups=[
            group
            for shard in ctx.groups.shards()
            for group in shard.list_groups(request.states_filter, request.types_filter)
        ]
    )

"""DeleteGroups: groups without members go, and their offsets with them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import BrokerError
from ottla.handlers.group_calls import ask
from ottla.handlers.registry import handles
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.services import Deferred, RequestContext, gather


@handles(DeleteGroupsRequest)
def delete_groups(request: DeleteGroupsRequest, ctx: RequestContext) -> Deferred[DeleteGroupsResponse]:
    return gather([_delete(group_id, ctx) for group_id in dict.fromkeys(request.groups_names)], _response)


def _delete(group_id: str, ctx: RequestContext) -> Deferred[DeletableGroupResult]:
    return ask(
        ctx,
        group_id,
        lambda shard, _, now_ms: shard.delete_group(group_id),
        refused=lambda error: DeletableGroupResult(group_id=group_id, error_code=error),
    )


def _response(results: Sequence[DeletableGroupResult | BrokerError]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[result for result in results if not isinstance(result, BrokerError)])

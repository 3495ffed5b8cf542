"""JoinGroup: a member enters a rebalance, and is answered when all others have."""

from __future__ import annotations

from ottla.handlers.group_calls import ask, caller
from ottla.handlers.registry import handles
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.services import Deferred, RequestContext


@handles(JoinGroupRequest)
def join_group(request: JoinGroupRequest, ctx: RequestContext) -> Deferred[JoinGroupResponse]:
    member = caller(ctx)
    return ask(ctx, request.group_id, lambda shard, token, now_ms: shard.join_group(request, member, token, now_ms))

"""SyncGroup: a member asks for its assignment; the leader brings everybody's."""

from __future__ import annotations

from ottla.errors import ErrorCode
from ottla.handlers.group_calls import ask, caller
from ottla.handlers.registry import handles
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.services import Deferred, RequestContext


@handles(SyncGroupRequest)
def sync_group(request: SyncGroupRequest, ctx: RequestContext) -> Deferred[SyncGroupResponse]:
    member = caller(ctx)
    return ask(
        ctx,
        request.group_id,
        lambda shard, token, now_ms: shard.sync_group(request, member, token, now_ms),
        refused=_refused,
    )


def _refused(error: ErrorCode) -> SyncGroupResponse:
    """A coordinator that is loading knows of no rebalance, and clients do not expect that it says it is loading."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)

"""Heartbeat: a member says that it is alive, and hears whether it should join again."""

from __future__ import annotations

from ottla.errors import ErrorCode
from ottla.handlers.group_calls import ask
from ottla.handlers.registry import handles
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.services import Deferred, RequestContext


@handles(HeartbeatRequest)
def heartbeat(request: HeartbeatRequest, ctx: RequestContext) -> Deferred[HeartbeatResponse]:
    return ask(ctx, request.group_id, lambda shard, _, now_ms: shard.heartbeat(request, now_ms), refused=_refused)


def _refused(error: ErrorCode) -> HeartbeatResponse:
    """Sessions begin when loading ends, so until then everybody is fine; clients do not expect to hear of loading."""
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)

"""LeaveGroup: members leave, one (up to v2) or several at once (since v3), by member id or by instance id."""

from __future__ import annotations

from ottla.handlers.group_calls import ask
from ottla.handlers.registry import handles
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.services import Deferred, RequestContext

SEVERAL_SINCE = 3


@handles(LeaveGroupRequest)
def leave_group(request: LeaveGroupRequest, ctx: RequestContext) -> Deferred[LeaveGroupResponse]:
    is_one = ctx.api_version < SEVERAL_SINCE
    leavers = [MemberIdentity(member_id=request.member_id)] if is_one else request.members
    left = ask(ctx, request.group_id, lambda shard, _, now_ms: shard.leave_group(request.group_id, leavers, now_ms))
    return left.then(_as_one) if is_one else left


def _as_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.members[0].error_code)

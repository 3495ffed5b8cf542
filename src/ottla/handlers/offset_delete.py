"""OffsetDelete: a group forgets offsets of topics that none of its members read."""

from __future__ import annotations

from ottla.handlers.group_calls import ask, unknown_partitions
from ottla.handlers.registry import handles
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.services import Deferred, RequestContext


@handles(OffsetDeleteRequest)
def offset_delete(request: OffsetDeleteRequest, ctx: RequestContext) -> Deferred[OffsetDeleteResponse]:
    unknown = unknown_partitions(ctx.image, request.topics)
    return ask(ctx, request.group_id, lambda shard, _, now_ms: shard.delete_offsets(request, unknown))

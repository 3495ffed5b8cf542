"""OffsetCommit: a group writes down how far it has read."""

from __future__ import annotations

from ottla.errors import ErrorCode
from ottla.handlers.group_calls import ask, caller, unknown_partitions
from ottla.handlers.registry import handles
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.services import Deferred, RequestContext


@handles(OffsetCommitRequest)
def offset_commit(request: OffsetCommitRequest, ctx: RequestContext) -> Deferred[OffsetCommitResponse]:
    member = caller(ctx)
    unknown = unknown_partitions(ctx.image, request.topics)
    return ask(
        ctx,
        request.group_id,
        lambda shard, _, now_ms: shard.commit_offsets(request, member, now_ms, unknown),
        refused=lambda error: _refused(request, error),
    )


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """There is no error of the whole answer, so it stands in each partition's."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

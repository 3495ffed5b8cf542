"""OffsetFetch: how far groups have read. One group up to v7, several since v8.

Who asks for stable offsets is told to wait while a transaction may be about to change them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.offsets import NO_OFFSET
from ottla.handlers.group_calls import ask
from ottla.handlers.registry import handles
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.services import Deferred, RequestContext, gather

SEVERAL_SINCE = 8
GROUP_ERROR_SINCE = 2


@handles(OffsetFetchRequest)
def offset_fetch(request: OffsetFetchRequest, ctx: RequestContext) -> Deferred[OffsetFetchResponse]:
    if ctx.api_version >= SEVERAL_SINCE:
        return gather([_fetch(group, request.require_stable, ctx) for group in request.groups], _several)
    has_group_error = ctx.api_version >= GROUP_ERROR_SINCE
    return _fetch(_only_group(request), request.require_stable, ctx).then(
        lambda group: _one(group, request, has_group_error)
    )


def _fetch(
    group: OffsetFetchRequestGroup, require_stable: bool, ctx: RequestContext
) -> Deferred[OffsetFetchResponseGroup]:
    return ask(
        ctx,
        group.group_id,
        lambda shard, _, now_ms: shard.fetch_offsets(group, require_stable),
        refused=lambda error: OffsetFetchResponseGroup(group_id=group.group_id, error_code=error),
    )


def _several(groups: Sequence[OffsetFetchResponseGroup | BrokerError]) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[group for group in groups if not isinstance(group, BrokerError)])


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _one(group: OffsetFetchResponseGroup, request: OffsetFetchRequest, has_group_error: bool) -> OffsetFetchResponse:
    if group.error_code and not has_group_error:
        return OffsetFetchResponse(topics=_refused_topics(request, group.error_code))
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=found.partition_index,
                        committed_offset=found.committed_offset,
                        committed_leader_epoch=found.committed_leader_epoch,
                        metadata=found.metadata,
                        error_code=found.error_code,
                    )
                    for found in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _refused_topics(request: OffsetFetchRequest, error_code: int) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=ErrorCode(error_code)
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]

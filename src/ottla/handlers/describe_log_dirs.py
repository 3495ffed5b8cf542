"""DescribeLogDirs: how much of the disk each partition takes."""

from collections.abc import Iterator, Sequence

from ottla.handlers.registry import handles
from ottla.metadata.image import TopicImage
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.services import RequestContext

DISK_FROM = 4
"""The version from which on the answer tells of the disk as a whole."""


@handles(DescribeLogDirsRequest)
def describe_log_dirs(request: DescribeLogDirsRequest, ctx: RequestContext) -> DescribeLogDirsResponse:
    log_dirs, tells_of_disk = ctx.services.log_dirs, ctx.api_version >= DISK_FROM
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=log_dirs.path,
                topics=[_sizes(name, indexes, ctx) for name, indexes in _asked(request, ctx)],
                total_bytes=log_dirs.total_bytes() if tells_of_disk else -1,
                usable_bytes=log_dirs.usable_bytes() if tells_of_disk else -1,
            )
        ]
    )


def _asked(request: DescribeLogDirsRequest, ctx: RequestContext) -> Iterator[tuple[str, list[int]]]:
    topics = ctx.image.topics
    if request.topics is None:
        for name, topic in sorted(topics.items()):
            yield name, _here(topic, sorted(topic.partitions), ctx)
        return
    for wanted in request.topics:
        known = topics.get(wanted.topic)
        if known is not None:
            yield wanted.topic, _here(known, wanted.partitions, ctx)


def _here(topic: TopicImage, indexes: Sequence[int], ctx: RequestContext) -> list[int]:
    """Those of which this node has a replica."""
    node_id, partitions = ctx.config.node_id, topic.partitions
    return [index for index in indexes if index in partitions and node_id in partitions[index].replicas]


def _sizes(name: str, indexes: list[int], ctx: RequestContext) -> DescribeLogDirsTopic:
    log_dirs = ctx.services.log_dirs
    return DescribeLogDirsTopic(
        name=name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=log_dirs.size_bytes(name, index))
            for index in indexes
        ],
    )

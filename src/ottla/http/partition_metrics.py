"""Metrics of partitions: sums over all, and figures of single ones for as many as the settings allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.metadata.image import NO_LEADER
from ottla.observability.metrics import Sample, labelled
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.http.turns import Turns
    from ottla.metadata.image import PartitionImage
    from ottla.observability.metrics import Text
    from ottla.replication.readable import Readable
    from ottla.runtime.node import Node

LOOK_EVERY = 32
"""Partitions between two looks at the clock."""

Single = list[tuple[str, "Readable"]]
"""Partitions that have figures of their own, with their labels."""


async def partition_metrics(text: Text, node: Node, turns: Turns) -> None:
    single = await _sums(text, node, turns)
    await _single(text, single, turns)
    await _followers(text, node, single, turns)


async def _sums(text: Text, node: Node, turns: Turns) -> Single:
    """Over all partitions that this node has a replica of."""
    node_id, limit, opened = node.config.node_id, node.config.http.metrics_partitions_max, node.partitions.opened
    led = held = offline = under_replicated = unsafe = size_bytes = segments = 0
    single: Single = []
    for number, (topic, labels, index, image) in enumerate(_images(node)):
        if not number % LOOK_EVERY and turns.is_over:
            await turns.end()
        if node_id not in image.replicas:
            continue
        is_led = image.leader == node_id
        held += 1
        led += is_led
        offline += image.leader == NO_LEADER
        under_replicated += is_led and len(image.isr) < len(image.replicas)
        readable = opened(topic, index)
        if readable is None:
            continue
        log = readable.log
        unsafe += is_led and len(image.isr) < min(log.config.min_insync_replicas, len(image.replicas))
        size_bytes += log.size_bytes
        segments += len(log.segments)
        if len(single) < limit:
            single.append((f'{labels},partition="{index}"', readable))
    text.gauge("ottla_topics", "Topics of the cluster.", len(node.image.topics))
    text.gauge("ottla_partitions_led", "Partitions that this node leads.", led)
    text.gauge("ottla_partitions_held", "Partitions of which this node has a replica.", held)
    text.gauge("ottla_partitions_offline", "Of those, the ones without a leader.", offline)
    text.gauge("ottla_partitions_under_replicated", "Led here, with replicas not in sync.", under_replicated)
    text.gauge("ottla_partitions_under_min_isr", "Led here, with too few in sync for acks=all.", unsafe)
    text.gauge("ottla_log_bytes", "Size of the logs that were used since the start.", size_bytes)
    text.gauge("ottla_log_segments", "Their segments.", segments)
    return single


def _images(node: Node) -> Iterator[tuple[str, str, int, PartitionImage]]:
    topics = node.image.topics
    for name in sorted(topics):
        labels = labelled(topic=name)
        for index, image in topics[name].partitions.items():
            yield name, labels, index, image


async def _single(text: Text, single: Single, turns: Turns) -> None:
    lines = text.lines
    for name, kind, about, figure in FAMILIES:
        text.family(name, kind, about)
        for at in range(0, len(single), LOOK_EVERY):
            lines += [f"{name}{{{labels}}} {figure(readable)}" for labels, readable in single[at : at + LOOK_EVERY]]
            if turns.is_over:
                await turns.end()


async def _followers(text: Text, node: Node, single: Single, turns: Turns) -> None:
    """How far the followers of what is led here are behind."""
    now_ms = node.clock.monotonic_ms()
    records: list[Sample] = []
    seconds: list[Sample] = []
    for number, (labels, readable) in enumerate(single):
        if not number % LOOK_EVERY and turns.is_over:
            await turns.end()
        if not isinstance(readable, Partition):
            continue
        end_offset = readable.log.durable_offset
        for follower in readable.followers.values():
            whose = f'{labels},replica="{follower.replica_id}"'
            behind = max(0, end_offset - max(follower.end_offset, 0))
            records.append((whose, behind))
            seconds.append((whose, max(0, now_ms - follower.caught_up_ms) / 1000 if behind else 0))
    text.gauges("ottla_replica_lag_records", "Records that a follower of a partition led here lacks.", records)
    if turns.is_over:
        await turns.end()
    text.gauges("ottla_replica_lag_seconds", "How long ago it last had everything.", seconds)


def _end_offset(readable: Readable) -> int:
    return readable.log.end_offset


def _high_watermark(readable: Readable) -> int:
    return readable.high_watermark


def _stable_offset(readable: Readable) -> int:
    return readable.last_stable_offset


def _start_offset(readable: Readable) -> int:
    return readable.log.start_offset


def _written_bytes(readable: Readable) -> int:
    return readable.written_bytes


def _read_bytes(readable: Readable) -> int:
    return readable.read_bytes


def _size_bytes(readable: Readable) -> int:
    return readable.log.size_bytes


FAMILIES: tuple[tuple[str, str, str, Callable[[Readable], int]], ...] = (
    ("ottla_partition_end_offset", "counter", "Records written: the offset of the next.", _end_offset),
    ("ottla_partition_high_watermark", "counter", "What readers may see ends here.", _high_watermark),
    (
        "ottla_partition_stable_offset",
        "counter",
        "What readers of committed records may see ends here.",
        _stable_offset,
    ),
    ("ottla_partition_start_offset", "counter", "The oldest record that is kept.", _start_offset),
    ("ottla_partition_written_bytes_total", "counter", "Bytes written to the partition here.", _written_bytes),
    ("ottla_partition_read_bytes_total", "counter", "Bytes that consumers were given from here.", _read_bytes),
    ("ottla_partition_bytes", "gauge", "Size of the partition's log on this node.", _size_bytes),
)

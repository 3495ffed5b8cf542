"""Metrics of the consumer groups that a node coordinates.

Lag can be told of partitions of which the node has a replica: it knows where they end, and can look at the next record
to be read. Of others, the committed offset here and the high watermark that their leader tells make the lag in records,
and `GET /consumer-groups/{group}`, which asks their leaders, tells all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import BrokerError, CorruptBatchError
from ottla.observability.metrics import Sample, labelled
from ottla.protocol.records import BatchHeader

if TYPE_CHECKING:
    from ottla.http.turns import Turns
    from ottla.observability.metrics import Text
    from ottla.replication.readable import Readable
    from ottla.runtime.node import Node

READS_MAX = 200
"""Lags in seconds that one scrape works out: each reads a batch. The rest is told in records only."""


class GroupSamples:
    """What one scrape finds, group by group."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._left = node.config.http.metrics_partitions_max
        self._reads_left = READS_MAX
        self._now_ms = node.clock.now_ms()
        self.offsets: list[Sample] = []
        self.records: list[Sample] = []
        self.seconds: list[Sample] = []

    def add(self, labels: str, topic: str, index: int, offset: int) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        where = f'{labels},{labelled(topic=topic)},partition="{index}"'
        self.offsets.append((where, offset))
        readable = self._node.partitions.opened(topic, index)
        if readable is None:
            return
        behind = max(0, readable.high_watermark - offset)
        self.records.append((where, behind))
        if not behind:
            self.seconds.append((where, 0))
        elif self._reads_left > 0:
            self._reads_left -= 1
            self.seconds.append((where, _age_s(readable, offset, self._now_ms)))


async def group_metrics(text: Text, node: Node, turns: Turns) -> None:
    every = [found for shard in node.groups.shards() for found in shard.groups()]
    members: list[Sample] = []
    generations: list[Sample] = []
    found = GroupSamples(node)
    told = sorted(every, key=lambda each: each[0].group_id)[: node.config.http.metrics_partitions_max]
    for group, offsets in told:
        labels = labelled(group=group.group_id)
        members.append((f'{labels},state="{group.state.value}"', len(group.roster)))
        generations.append((labels, group.generation))
        for topic, partitions in offsets.items():
            for index, committed in partitions.items():
                found.add(labels, topic, index, committed.offset)
                if turns.is_over:
                    await turns.end()
    text.gauge("ottla_groups", "Groups that this node coordinates.", len(every))
    text.gauges("ottla_group_members", "Members of a group, with its state.", members)
    text.counters("ottla_group_generation", "Goes up with every rebalance of the group.", generations)
    text.gauges("ottla_group_committed_offset", "Where a group goes on reading.", found.offsets)
    text.gauges("ottla_group_lag_records", "Records that a group has not committed yet.", found.records)
    text.gauges("ottla_group_lag_seconds", "Age of the next record to be read.", found.seconds)


def _age_s(readable: Readable, offset: int, now_ms: int) -> float:
    at = max(offset, readable.log.start_offset)
    try:
        batch = readable.log.read(at, 1, upto_offset=readable.high_watermark, min_one_batch=True)
        return max(0, now_ms - BatchHeader.parse(batch).base_timestamp_ms) / 1000 if batch else 0.0
    except (BrokerError, CorruptBatchError):
        return 0.0

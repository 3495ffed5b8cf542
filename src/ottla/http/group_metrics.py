"""Metrics of the consumer groups that a node coordinates.

Lag can be told of partitions of which the node has a replica: it knows where they end, and can look at the next record
to be read. Of others, `GET /consumer-groups/{group}` tells it, which asks their leaders.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, CorruptBatchError
from ottla.protocol.records import BatchHeader

if TYPE_CHECKING:
    from ottla.observability.metrics import Text
    from ottla.replication.readable import Readable
    from ottla.runtime.node import Node

    Samples = list[tuple[dict[str, object], float]]

TURN_GROUPS = 50
READS_MAX = 200
"""Lags in seconds that one scrape works out: each reads a batch. The rest is told in records only."""


async def group_metrics(text: Text, node: Node) -> None:
    limit = node.config.http.metrics_partitions_max
    members: Samples = []
    generations: Samples = []
    records: Samples = []
    seconds: Samples = []
    reads = 0
    every = [found for shard in node.groups.shards() for found in shard.groups()]
    for number, (group, offsets) in enumerate(sorted(every, key=lambda found: found[0].group_id)[:limit]):
        if not number % TURN_GROUPS:
            await asyncio.sleep(0)
        whose: dict[str, object] = {"group": group.group_id}
        members.append(({**whose, "state": group.state.value}, len(group.roster)))
        generations.append((whose, group.generation))
        for topic, partitions in offsets.items():
            for index, committed in partitions.items():
                readable = node.partitions.opened(topic, index)
                if readable is None or len(records) >= limit:
                    continue
                where = {**whose, "topic": topic, "partition": index}
                behind = max(0, readable.high_watermark - committed.offset)
                records.append((where, behind))
                if not behind:
                    seconds.append((where, 0.0))
                elif reads < READS_MAX:
                    reads += 1
                    seconds.append((where, _age_s(readable, committed.offset, node.clock.now_ms())))
                    await asyncio.sleep(0)
    text.gauge("ottla_groups", "Groups that this node coordinates.", len(every))
    text.gauges("ottla_group_members", "Members of a group, with its state.", members)
    text.counters("ottla_group_generation", "Goes up with every rebalance of the group.", generations)
    text.gauges("ottla_group_lag_records", "Records that a group has not committed yet.", records)
    text.gauges("ottla_group_lag_seconds", "Age of the next record to be read.", seconds)


def _age_s(readable: Readable, offset: int, now_ms: int) -> float:
    at = max(offset, readable.log.start_offset)
    try:
        batch = readable.log.read(at, 1, upto_offset=readable.high_watermark, min_one_batch=True)
        return max(0, now_ms - BatchHeader.parse(batch).base_timestamp_ms) / 1000 if batch else 0.0
    except (BrokerError, CorruptBatchError):
        return 0.0

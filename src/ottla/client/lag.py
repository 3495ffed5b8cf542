"""How far a reader is behind: in records, from offsets, and in seconds, from the age of the oldest record not yet read.

Offsets alone can't tell time, so for every partition with a lag one record is fetched, the next to be read. That is one
short-lived connection per call: right for a monitor that asks every few seconds, too much for every message.
"""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import TopicPartition as RawPartition

from ottla.client.cluster import OffsetAt, PartitionLag
from ottla.client.librdkafka import logger, on_error, translated
from ottla.types import TopicPartition

PROBE_TIMEOUT_S = 5.0


def lag_of(
    positions: Mapping[TopicPartition, int | None],
    *,
    start: Mapping[TopicPartition, OffsetAt],
    end: Mapping[TopicPartition, OffsetAt],
    settings: Mapping[str, Any],
    now_ms: int,
) -> list[PartitionLag]:
    behind = {
        at: max(position, start[at].offset)
        for at, position in positions.items()
        if position is not None and position < end[at].offset and start[at].offset < end[at].offset
    }
    oldest = next_timestamps(behind, settings)
    return [
        PartitionLag(
            partition=at,
            position=position,
            start_offset=start[at].offset,
            end_offset=end[at].offset,
            records=None if position is None else max(end[at].offset - position, 0),
            seconds=_seconds(position, at in behind, oldest.get(at), now_ms),
        )
        for at, position in positions.items()
    ]


def _seconds(position: int | None, is_behind: bool, oldest_ms: int | None, now_ms: int) -> float | None:
    if position is None:
        return None
    if not is_behind:
        return 0.0
    return None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000


def next_timestamps(offsets: Mapping[TopicPartition, int], settings: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each offset; partitions that give none in time are left out."""
    if not offsets:
        return {}
    found: dict[TopicPartition, int] = {}
    probe = RawConsumer({**settings, **_PROBE, "error_cb": on_error}, logger=logger)
    try:
        with translated("looking for the next records"):
            probe.assign([RawPartition(at.topic, at.partition, offset) for at, offset in offsets.items()])
            deadline = time.monotonic() + PROBE_TIMEOUT_S
            while len(found) < len(offsets) and (left := deadline - time.monotonic()) > 0:
                _note(probe, probe.poll(left), found)
    finally:
        probe.close()
    return found


_PROBE: Mapping[str, Any] = {
    "group.id": "ottla-lag",
    "client.id": "ottla-lag",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # One batch of each partition is all that is wanted.
    "queued.min.messages": 1,
    "max.partition.fetch.bytes": 1024,
    "fetch.wait.max.ms": 100,
}


def _note(probe: Any, message: Any, found: dict[TopicPartition, int]) -> None:
    if message is None or message.error() is not None:
        return
    at = TopicPartition(message.topic(), message.partition())
    if at not in found:
        found[at] = message.timestamp()[1]
        probe.pause([RawPartition(at.topic, at.partition)])

"""Figures of a producer, from our own counts and from the statistics that librdkafka writes as JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    sent: int
    """Records that `send` has taken."""
    delivered: int
    failed: int
    waiting: int
    """In the buffer or on the way."""
    batch_records_avg: float = 0.0
    batch_bytes_avg: float = 0.0
    buffer_ms_avg: float = 0.0
    """From `send` until the batch was made."""
    request_ms_p50: float = 0.0
    """From a request to its answer."""
    request_ms_p99: float = 0.0


def metrics_from(statistics: str | None, *, sent: int, failed: int, waiting: int) -> ProducerMetrics:
    counts = {"sent": sent, "failed": failed, "waiting": waiting, "delivered": max(sent - failed - waiting, 0)}
    if statistics is None:
        return ProducerMetrics(**counts)
    parsed = json.loads(statistics)
    topics, brokers = parsed["topics"].values(), parsed["brokers"].values()
    return ProducerMetrics(
        **counts,
        batch_records_avg=_mean(topic["batchcnt"] for topic in topics),
        batch_bytes_avg=_mean(topic["batchsize"] for topic in topics),
        buffer_ms_avg=_mean(broker["int_latency"] for broker in brokers) / 1000,
        request_ms_p50=max((broker["rtt"]["p50"] for broker in brokers), default=0) / 1000,
        request_ms_p99=max((broker["rtt"]["p99"] for broker in brokers), default=0) / 1000,
    )


def _mean(windows: Iterable[Mapping[str, Any]]) -> float:
    """Of several of librdkafka's windows, each counting as much as it has values."""
    known = [window for window in windows if window["cnt"]]
    total = sum(window["cnt"] for window in known)
    return sum(window["avg"] * window["cnt"] for window in known) / total if total else 0.0

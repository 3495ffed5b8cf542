"""What the demonstration knows while it runs: asked of the cluster, and read from what the pipeline tells."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.settings import AdminConfig
from ottla.pipelines.settings import PipelineSettings

__all__ = ["Batch", "State", "Watch"]

RATE_OVER_S: Final = 5.0
WINDOWS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    number: int
    rows: int
    ms: int


@dataclass(slots=True)
class State:
    """Of one moment."""

    elapsed_s: float = 0.0
    phase: str = "starting"
    counts: dict[str, int] = field(default_factory=dict)
    """Records of each topic."""
    rates: dict[str, float] = field(default_factory=dict)
    lag_records: int | None = None
    lag_s: float | None = None
    batches: dict[str, Batch] = field(default_factory=dict)
    """The last of each flow that had something to do."""
    watermark: str | None = None
    runs: int = 0
    run_ms: int | None = None
    run_began: int = 0
    """The number of the run that has begun last."""
    windows: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=WINDOWS_SHOWN))
    windows_closed: int = 0
    spark_ui: str | None = None


class Watch:
    def __init__(self, settings: PipelineSettings, progress_file: Path) -> None:
        self.state = State()
        self._settings = settings
        self._admin = Admin(AdminConfig(bootstrap_servers=settings.bootstrap, request_timeout_ms=5_000))
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "group.id": "ottla-demo",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._assigned = False
        self._progress_file = progress_file
        self._progress_at = 0
        self._began_s = time.monotonic()
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()

    def look(self) -> State:
        """Again at everything. A cluster that does not answer at the moment leaves what was known."""
        self.state.elapsed_s = time.monotonic() - self._began_s
        self._follow_progress()
        for look in (self._count, self._ask_lag, self._read_windows):
            with suppress(ClientError):
                look()
        return self.state

    def _count(self) -> None:
        now_s = time.monotonic()
        counts = {}
        there = {topic.name for topic in self._admin.list_topics()}
        for topic in there.intersection(self._settings.topics):
            counts[topic] = sum(at.offset for at in self._admin.topic_offsets(topic).values())
        self._samples.append((now_s, counts))
        while len(self._samples) > 2 and self._samples[1][0] < now_s - RATE_OVER_S:
            self._samples.popleft()
        then_s, then = self._samples[0]
        passed_s = max(now_s - then_s, 0.001)
        self.state.counts = counts
        self.state.rates = {topic: (counts[topic] - then.get(topic, 0)) / passed_s for topic in counts}

    def _ask_lag(self) -> None:
        lags = [line.lag for line in self._admin.group_lag(self._settings.group)]
        known = [lag.records for lag in lags if lag.records is not None]
        ages = [lag.seconds for lag in lags if lag.seconds is not None]
        self.state.lag_records = sum(known) if known else None
        self.state.lag_s = max(ages) if ages else None

    def _read_windows(self) -> None:
        if not self._assigned:
            topic = self._settings.topic("tumbling")
            partitions = self._admin.describe_topic(topic).partitions
            self._consumer.assign([TopicPartition(topic, at, 0) for at in range(len(partitions))])
            self._assigned = True
        for message in self._consumer.consume(1_000, timeout=0.05):
            if message.error() is None:
                self.state.windows.append(json.loads(message.value()))
                self.state.windows_closed += 1

    def _follow_progress(self) -> None:
        for told in self._new_lines():
            match told["event"]:
                case "started":
                    self.state.spark_ui = told["spark_ui"]
                case "batch":
                    self.state.watermark = told["watermark"] or self.state.watermark
                    if told["rows"]:
                        batch = Batch(number=told["batch"], rows=told["rows"], ms=told["ms"])
                        self.state.batches[told["flow"]] = batch
                case "begun":
                    self.state.run_began = told["number"]
                case "run":
                    self.state.runs, self.state.run_ms = told["number"], told["ms"]

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        if not self._progress_file.exists():
            return
        with self._progress_file.open("rb") as file:
            file.seek(self._progress_at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._progress_at += len(line)
                yield json.loads(line)

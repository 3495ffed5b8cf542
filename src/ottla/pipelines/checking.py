"""The results, in topics and in tables, beside what they must be: every event once, and nothing else."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ottla.client.errors import UnreachableError
from ottla.ingest.truth import Truth
from ottla.pipelines.expected import Expected, Order, Window
from ottla.pipelines.project import Project
from ottla.pipelines.settings import PipelineSettings
from ottla.pipelines.tables import read_table

__all__ = ["Finding", "Record", "check", "check_sent", "read_topic"]

ASK_S: Final = 10.0
POLL_S: Final = 0.2
SILENCE_S_MAX: Final = 60.0
ERROR_HEADER: Final = "ottla.dlq.error"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One comparison."""

    what: str
    expected: int
    found: int
    missing: int
    unexpected: int
    """Too many, or wrong."""

    @property
    def is_right(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        if self.is_right:
            return f"{self.what}: {self.found:,}, each exactly once"
        return (
            f"{self.what}: {self.found:,} of {self.expected:,}; {self.missing:,} missing, {self.unexpected:,} too many"
        )


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes | None
    headers: dict[str, bytes]


def check_sent(truth: Truth, settings: PipelineSettings) -> Finding:
    """That all of it is in the raw topic."""
    found = sum(1 for _ in read_topic(settings.bootstrap, settings.raw)) - truth.heartbeats
    return Finding(
        what=f"topic {settings.raw}",
        expected=truth.sent,
        found=found,
        missing=max(0, truth.sent - found),
        unexpected=max(0, found - truth.sent),
    )


def check(truth: Truth, project: Project) -> list[Finding]:
    """Everything that comes after the raw topic."""
    settings = project.settings
    expected = Expected.of(truth, settings)
    findings = []
    for name, read, wanted in _results(expected):
        told = (json.loads(record.value or b"") for record in read_topic(settings.bootstrap, settings.topic(name)))
        findings.append(_compare(f"topic {settings.topic(name)}", wanted, map(read, told)))
        kept = (row for row in read_table(project.table(name)) if row.get("kind") != "heartbeat")
        findings.append(_compare(f"table {name}", wanted, map(read, kept)))
    letters = read_topic(settings.bootstrap, settings.dead_letters)
    reasons = (letter.headers.get(ERROR_HEADER, b"").decode() for letter in letters)
    findings.append(_compare(f"topic {settings.dead_letters}", Counter(expected.dead).elements(), reasons))
    return findings


def _results(expected: Expected) -> Iterator[tuple[str, Callable[[Row], Hashable], Iterable[Hashable]]]:
    yield "clean", _event_id, expected.clean
    yield "tumbling", _window, expected.tumbling
    yield "sliding", _window, expected.sliding
    yield "sessions", _window, expected.sessions
    yield "orders", _order, expected.orders


def _compare(what: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Finding:
    wanted, there = Counter(expected), Counter(found)
    return Finding(
        what=what,
        expected=wanted.total(),
        found=there.total(),
        missing=(wanted - there).total(),
        unexpected=(there - wanted).total(),
    )


def _event_id(row: Row) -> str:
    return str(row["event_id"])


def _window(row: Row) -> Window:
    return Window(
        client_id=row["client_id"],
        start_ms=_ms(row["window_start"]),
        end_ms=_ms(row["window_end"]),
        events=row["events"],
        metrics=row["metrics"],
        orders=row["orders"],
        amount=Decimal(str(row["amount"])),
    )


def _order(row: Row) -> Order:
    paid_at = row.get("paid_at")
    return Order(
        order_id=row["order_id"],
        client_id=row["client_id"],
        amount=Decimal(str(row["amount"])),
        placed_ms=_ms(row["placed_at"]),
        paid_ms=None if paid_at is None else _ms(paid_at),
    )


def _ms(moment: str | datetime) -> int:
    """A time as JSON has it, or as Parquet does."""
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return round(at.timestamp() * 1_000)


def read_topic(bootstrap: str, topic: str) -> Iterator[Record]:
    """All that is committed in it now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ottla-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=ASK_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        open_partitions = set(partitions)
        heard_s = time.monotonic()
        while open_partitions:
            messages = consumer.consume(1_000, timeout=POLL_S)
            if messages:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > SILENCE_S_MAX:
                raise UnreachableError(f"{topic} can't be read: nothing came for {SILENCE_S_MAX:g} s")
            for message in messages:
                error = message.error()
                if error is None:
                    yield Record(message.value(), dict(message.headers() or ()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()

"""The options of the source: those of Spark's Kafka source, under the same names, and a few more.

They come as strings without regard to case. `kafka.*` may be written without its prefix.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_ottla.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Partition
from pyspark_ottla.wire import CLIENT_ID

__all__ = ["Boundary", "Options", "OptionsError", "SourceOptions"]

DEFAULT_FETCH_BYTES: Final = 4 * 1024 * 1024
DEFAULT_TIMEOUT_MS: Final = 120_000
DEFAULT_GROUP_PREFIX: Final = "spark-ottla"
GROUP_NAME_MAX: Final = 200
WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
ISOLATIONS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}

KAFKA_OPTIONS: Final = frozenset(
    {
        "bootstrap.servers", "client.id", "group.id", "isolation.level", "max.partition.fetch.bytes",
        "fetch.max.wait.ms", "request.timeout.ms", "check.crcs", "security.protocol", "acks", "compression.type",
        "batch.size", "max.request.size", "transaction.timeout.ms",
    }
)  # fmt: skip

log = logging.getLogger(__name__)


class OptionsError(ValueError):
    """An option that can't be used; the message names it."""


class Options:
    """Typed access to what Spark hands over."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        for name in self._given:
            if name.startswith("kafka.") and name.removeprefix("kafka.") not in KAFKA_OPTIONS:
                log.warning("option %s has no effect here", name)
        protocol = self.kafka("security.protocol") or "PLAINTEXT"
        if protocol.upper() != "PLAINTEXT":
            raise OptionsError(f"kafka.security.protocol: {protocol} is not supported, only PLAINTEXT")

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def kafka(self, name: str) -> str | None:
        return self.text(f"kafka.{name}") or self.text(name)

    def number(self, name: str, default: int | None = None, *, kafka: bool = False) -> int | None:
        text = self.kafka(name) if kafka else self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,18}", text.strip()):
            raise OptionsError(f"{name}: {text!r} is not a whole number of 0 or more")
        return int(text)

    def flag(self, name: str, default: bool, *, kafka: bool = False) -> bool:
        text = (self.kafka(name) if kafka else self.text(name)) or str(default)
        if text.lower() not in ("true", "false"):
            raise OptionsError(f"{name}: {text!r} is neither true nor false")
        return text.lower() == "true"

    def choice(self, name: str, choices: Mapping[str, int], default: str) -> int:
        text = (self.kafka(name) or default).lower()
        if text not in choices:
            raise OptionsError(f"{name}: {text!r} is not one of {', '.join(choices)}")
        return choices[text]

    @property
    def client_id(self) -> str:
        return self.kafka("client.id") or CLIENT_ID

    @property
    def bootstrap(self) -> str:
        found = self.kafka("bootstrap.servers")
        if not found:
            raise OptionsError("kafka.bootstrap.servers is missing: host:port of one broker or several")
        return found


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading begins or ends: offsets and times of single partitions, and what holds for all others."""

    default: int
    """EARLIEST or LATEST."""
    offsets: Mapping[Partition, int]
    timestamps_ms: Mapping[Partition, int]
    timestamp_ms: int | None = None
    """For all partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    bootstrap: str
    topics: tuple[str, ...]
    pattern: str | None
    assigned: tuple[Partition, ...]
    start: Boundary
    end: Boundary
    no_match_is_latest: bool
    """A time after the last record begins at the end, instead of being an error."""
    offsets_max: int | None
    offsets_min: int | None
    delay_ms_max: int
    tasks_min: int | None
    records_per_task_max: int | None
    fails_on_data_loss: bool
    includes_headers: bool
    isolation: int
    group: str
    fetch_bytes: int
    fetch_wait_ms: int
    checks_crcs: bool
    timeout_ms: int
    client_id: str

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        options = Options(given)
        topics, pattern, assigned = _subscription(options)
        prefix = options.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX
        named = ",".join(topics) or pattern or ",".join(sorted({topic for topic, _ in assigned}))
        strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").lower()
        if strategy not in ("error", "latest"):
            raise OptionsError(f"startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
        return cls(
            bootstrap=options.bootstrap,
            topics=topics,
            pattern=pattern,
            assigned=assigned,
            start=_boundary(options, "starting", "latest" if streaming else "earliest"),
            end=_boundary(options, "ending", "latest"),
            no_match_is_latest=strategy == "latest",
            offsets_max=options.number("maxOffsetsPerTrigger"),
            offsets_min=options.number("minOffsetsPerTrigger"),
            delay_ms_max=_duration_ms(options.text("maxTriggerDelay") or "15m"),
            tasks_min=options.number("minPartitions"),
            records_per_task_max=options.number("maxRecordsPerPartition"),
            fails_on_data_loss=options.flag("failOnDataLoss", True),
            includes_headers=options.flag("includeHeaders", False),
            isolation=options.choice("isolation.level", ISOLATIONS, "read_committed"),
            group=options.kafka("group.id") or f"{prefix}-{named}"[:GROUP_NAME_MAX],
            fetch_bytes=options.number("max.partition.fetch.bytes", DEFAULT_FETCH_BYTES, kafka=True) or 1,
            fetch_wait_ms=options.number("fetch.max.wait.ms", 500, kafka=True) or 0,
            checks_crcs=options.flag("check.crcs", True, kafka=True),
            timeout_ms=options.number("kafkaConsumer.pollTimeoutMs", DEFAULT_TIMEOUT_MS) or DEFAULT_TIMEOUT_MS,
            client_id=options.client_id,
        )


def _subscription(options: Options) -> tuple[tuple[str, ...], str | None, tuple[Partition, ...]]:
    subscribe, pattern, assign = (options.text(name) for name in ("subscribe", "subscribePattern", "assign"))
    if sum(choice is not None for choice in (subscribe, pattern, assign)) != 1:
        raise OptionsError("exactly one of subscribe, subscribePattern and assign says what to read")
    topics = tuple(name.strip() for name in (subscribe or "").split(",") if name.strip())
    if subscribe is not None and not topics:
        raise OptionsError("subscribe: no topic is named")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionsError(f"subscribePattern: {error}") from error
    assigned = [] if assign is None else _assigned(assign)
    return topics, pattern, tuple(assigned)


def _assigned(text: str) -> list[Partition]:
    try:
        return [(topic, int(partition)) for topic, several in json.loads(text).items() for partition in several]
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionsError('assign: not like {"topic": [0, 1]}') from error


def _boundary(options: Options, which: str, default: str) -> Boundary:
    """Times for all go before times for some, and these before offsets, as in Spark."""
    for_all = options.number(f"{which}Timestamp")
    by_timestamp = options.text(f"{which}OffsetsByTimestamp")
    if for_all is not None:
        return Boundary(WORDS[default], {}, {}, for_all)
    if by_timestamp is not None:
        return Boundary(WORDS[default], {}, _per_partition(f"{which}OffsetsByTimestamp", by_timestamp))
    text = (options.text(f"{which}Offsets") or default).strip()
    if text.lower() in WORDS:
        word = WORDS[text.lower()]
        if which == "ending" and word == EARLIEST:
            raise OptionsError("endingOffsets can't be earliest")
        return Boundary(word, {}, {})
    return Boundary(WORDS[default], _per_partition(f"{which}Offsets", text), {})


def _per_partition(name: str, text: str) -> dict[Partition, int]:
    try:
        return {
            (topic, int(partition)): int(number)
            for topic, several in json.loads(text).items()
            for partition, number in several.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionsError(f'{name}: not like {{"topic": {{"0": 23}}}}') from error


def _duration_ms(text: str) -> int:
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    match = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h|d)", text.strip().lower())
    if match is None:
        raise OptionsError(f"maxTriggerDelay: {text!r} is not like 15m")
    return int(match[1]) * units[match[2]]

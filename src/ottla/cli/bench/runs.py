"""The measurements themselves: which jobs make one up, and what their results amount to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.cli.bench import jobs
from ottla.cli.bench.broker import Usage, usage
from ottla.cli.bench.histogram import Histogram, merged
from ottla.cli.bench.jobs import Done, Job
from ottla.cli.bench.processes import Work, run_together
from ottla.client.settings import AckMode, ConsumerConfig, ProducerConfig

Show = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    size_bytes: int
    processes: int
    acks: AckMode
    compression: str
    batch_bytes: int
    linger_ms: float
    rate: float
    broker_pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of it."""

    mode: str
    records: int
    value_bytes: int
    seconds: float
    latencies: Histogram
    before: Usage | None
    after: Usage | None

    def as_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / self.seconds, 1),
            "mb_per_second": round(self.value_bytes / self.seconds / 1e6, 3),
            "p50_ms": self._percentile_ms(50),
            "p99_ms": self._percentile_ms(99),
            "p99_9_ms": self._percentile_ms(99.9),
            "broker_cpu_us_per_record": self._cpu_us_per_record(),
            "broker_rss_mb": None if self.after is None else round(self.after.rss_bytes / 1e6, 1),
        }

    def _percentile_ms(self, percent: float) -> float | None:
        found = self.latencies.percentile_us(percent)
        return None if found is None else round(found / 1_000, 3)

    def _cpu_us_per_record(self) -> float | None:
        if self.before is None or self.after is None:
            return None
        return round((self.after.cpu_us - self.before.cpu_us) / self.records, 3)


def measure_produce(plan: Plan, show: Show) -> Measured:
    settings = _producer_settings(plan, linger_ms=plan.linger_ms)
    work: list[tuple[Work, Job]] = [
        (jobs.produce, _job(plan, settings, share)) for share in shares(plan.records, plan.processes)
    ]
    return _measured("produce", plan, work, show)


def measure_consume(plan: Plan, ends: Mapping[int, int], show: Show) -> Measured:
    """Reads what each partition holds up to its end in `ends`, all partitions at once."""
    work: list[tuple[Work, Job]] = []
    for number in range(min(plan.processes, len(ends))):
        mine = sorted(ends)[number :: plan.processes]
        job = _job(plan, _consumer_settings(plan), sum(ends[at] for at in mine), partitions=mine)
        work.append((jobs.consume, job))
    return _measured("consume", plan, work, show)


def measure_latency(plan: Plan, show: Show) -> Measured:
    """End to end: one process sends at a steady rate, another receives."""
    sender = _job(plan, _producer_settings(plan, linger_ms=0), plan.records, rate=plan.rate)
    receiver = _job(plan, _consumer_settings(plan), plan.records, partitions=range(plan.partitions))
    return _measured("latency", plan, [(jobs.send_at_rate, sender), (jobs.receive_timed, receiver)], show)


def _measured(mode: str, plan: Plan, work: Sequence[tuple[Work, Job]], show: Show) -> Measured:
    usages: list[Usage] = []

    def look() -> None:
        if plan.broker_pid is not None:
            usages.append(usage(plan.broker_pid))

    done = run_together(work, at_start=look, show=show)
    look()
    counted = _receivers(done) if mode == "latency" else done
    return Measured(
        mode=mode,
        records=sum(result.records for result in counted),
        value_bytes=sum(result.value_bytes for result in counted),
        seconds=max(result.ended_s for result in done) - min(result.started_s for result in done),
        latencies=merged(Histogram(result.latencies) for result in counted),
        before=usages[0] if usages else None,
        after=usages[1] if usages else None,
    )


def _receivers(done: Sequence[Done]) -> list[Done]:
    """Those who timed what they got: in a run end to end, the sender's records are the same ones."""
    return [result for result in done if result.latencies]


def _job(plan: Plan, settings: Mapping[str, Any], records: int, **more: Any) -> Job:
    return Job(topic=plan.topic, settings=settings, records=records, size_bytes=plan.size_bytes, **more)


def shares(total: int, parts: int) -> list[int]:
    """`total` in `parts` as equal as can be, none of them empty."""
    parts = min(parts, total)
    return [total // parts + (1 if number < total % parts else 0) for number in range(parts)]


def _producer_settings(plan: Plan, *, linger_ms: float) -> dict[str, Any]:
    config = ProducerConfig(
        bootstrap_servers=plan.bootstrap,
        client_id="ottla-bench",
        acks=plan.acks,
        compression_type=plan.compression,
        batch_size=plan.batch_bytes,
        linger_ms=linger_ms,
        metrics_interval_ms=0,
    )
    return config.librdkafka()


def _consumer_settings(plan: Plan) -> dict[str, Any]:
    config = ConsumerConfig(bootstrap_servers=plan.bootstrap, client_id="ottla-bench", group_id=None)
    return {**config.librdkafka(), "queued.min.messages": 1_000_000, "auto.offset.reset": "earliest"}

"""Apache Kafka's own client, as its `kafka-producer-perf-test` drives it, with the settings that it comes with.

Those are acks=all, an idempotent producer, batches of 16 KiB, linger 5 ms and five requests in flight; one producer
writes as fast as it can. Its requests hold a batch for each partition that has one, where librdkafka's hold one batch.
A JVM that has just been started compiles what it does beside doing it, so a window begins when its compilers, and those
of the broker if that is one, have come to rest.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from bench import apache_kafka
from bench.jit import REST_SHARE, Compilers
from bench.loads import Measure, Workload
from bench.native import DriverError, Measured
from bench.processes import cpu_s
from bench.setting import Setting, Windows
from bench.topics import new_topic

_MAIN_CLASS = "org.apache.kafka.tools.ProducerPerformance"
_REPORT_MS = 250
_LOOK_S, _LOOKS_AT_REST = 1.0, 2
_RECORDS = 2_000_000_000
"""More than it gets to: it is ended when its window is over."""
_REPORT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .*?, ([\d.]+) ms avg latency")


@dataclass(frozen=True, slots=True)
class Report:
    """What the client says of the time since its last one."""

    records: int
    seconds: float
    mean_ms: float


def parse(line: str) -> Report | None:
    """None for a line that is something else, or of a time in which nothing was acknowledged."""
    found = _REPORT.match(line)
    if found is None or not float(found[2]):
        return None
    records = int(found[1])
    return Report(records, records / float(found[2]), float(found[3]))


def java(name: str, *, record_bytes: int, partitions: int = 6) -> Measure:
    """Records by Java's client."""

    def measure(at: Setting) -> Measured:
        with new_topic(at.server, name, partitions) as (topic, _), tempfile.TemporaryFile("w+") as complaints:
            options = ["--topic", topic, "--bootstrap-server", at.server.bootstrap, "--throughput", "-1"]
            options += ["--num-records", str(_RECORDS), "--record-size", str(record_bytes)]
            command = apache_kafka.client_command(_MAIN_CLASS, [*options, "--reporting-interval", str(_REPORT_MS)])
            client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)
            try:
                return _watched(client, at, record_bytes)
            except StopIteration:
                complaints.seek(0)
                raise DriverError(f"Java's client has ended: {complaints.read()[-500:].strip()}") from None
            finally:
                client.kill()
                client.communicate()

    return measure


def _watched(client: subprocess.Popen[str], at: Setting, record_bytes: int) -> Measured:
    """Raises StopIteration if the client ends."""
    assert client.stdout is not None
    reports = _reports(client.stdout)
    warm_s = _warm_up(reports, Compilers([client.pid, *at.server.pids]), at.windows)
    seen: list[Report] = []
    seconds = 0.0
    with at.lent():
        broker_s, client_s = at.server.cpu_s(), cpu_s(client.pid)
        while seconds < at.windows.seconds:
            seen.append(next(reports))
            seconds += seen[-1].seconds
        broker_s, client_s = at.server.cpu_s() - broker_s, cpu_s(client.pid) - client_s
    records = sum(report.records for report in seen)
    return {
        "rate": records / seconds,
        "mb_per_s": records / seconds * record_bytes / 1e6,
        "mean_ms": sum(report.records * report.mean_ms for report in seen) / records,
        "broker_cpu_us": broker_s * 1e6 / records,
        "broker_cpu_s": broker_s,
        "client_cpu_s": client_s,
        "seconds": seconds,
        "messages": records,
        "warm_s": warm_s,
    }


def _warm_up(reports: Iterator[Report], compilers: Compilers, windows: Windows) -> float:
    """Until nothing much is compiled any more, but not for ever. How long that was."""
    warm_s = looked_s = 0.0
    at_rest = 0
    while warm_s < windows.warmup_s or (at_rest < _LOOKS_AT_REST and warm_s < windows.warmup_s + windows.jit_s_max):
        warm_s += next(reports).seconds
        if warm_s - looked_s >= _LOOK_S:
            looked_s = warm_s
            at_rest = at_rest + 1 if compilers.share() <= REST_SHARE else 0
    return warm_s


def _reports(lines: IO[str]) -> Iterator[Report]:
    for line in lines:
        report = parse(line)
        if report is not None:
            yield report


def _workload(name: str, title: str, *, record_bytes: int, partitions: int = 6) -> Workload:
    measure = java(name, record_bytes=record_bytes, partitions=partitions)
    return Workload(name=name, title=title, measure=measure, extra_s=14.0, lends=True)


WORKLOADS = (
    _workload("java_1kb", "1 KB by Java's client", record_bytes=1000),
    _workload("java_100b", "100 B by Java's client", record_bytes=100),
    _workload("java_1kb_64p", "1 KB to 64 partitions by Java's client", record_bytes=1000, partitions=64),
    _workload("java_100b_64p", "100 B to 64 partitions by Java's client", record_bytes=100, partitions=64),
)
NAMES = tuple(workload.name for workload in WORKLOADS)

"""`python -m bench spark`: `format("ottla")` on Ottla beside Spark's own Kafka connector on Apache Kafka.

Two cores for Spark (`local[2]`), topics of six partitions, the same rows for both. Each side is a broker and a Spark
application in processes of their own; they stay up and take turns, so that what else the machine does falls on both.
CPU time is that of the whole side: the driver, its Python workers and the broker. `python -m bench spark --quick` does
everything once and with less data; names of workloads after it run these alone.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from bench import spark_connector
from bench.apache_kafka import KafkaUnavailableError
from bench.machine import others_cores
from bench.native import BUILD
from bench.processes import stop, tree_cpu_s
from bench.servers import Server, make_server
from bench.spark_data import Topic, fill
from bench.spark_report import Run, as_json, line, table
from bench.wire import WireClient, wait_for_leaders
from ottla.protocol.compression import Compression

PARTITIONS = 6
DATA = Path(os.environ.get("OTTLA_BENCH_DIR", BUILD / "spark"))
SMALL_BATCH_BYTES = 16 * 1024
TUNED = {"kafka.max.partition.fetch.bytes": str(4 << 20), "kafka.max.poll.records": "20000"}
"""What Spark's connector gains most from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    rows_100b: int
    rows_1kb: int
    rows_compressed: int
    rows_written: int
    batches: int
    repetitions: int

    def topics(self) -> list[Topic]:
        small = SMALL_BATCH_BYTES
        return [
            Topic(name="rows-100b", rows=self.rows_100b, row_bytes=100),
            Topic(name="rows-1kb", rows=self.rows_1kb, row_bytes=1000),
            Topic(
                name="rows-lz4",
                rows=self.rows_compressed,
                row_bytes=100,
                compression=Compression.LZ4,
                batch_bytes=small,
            ),
            Topic(
                name="rows-zstd",
                rows=self.rows_compressed,
                row_bytes=100,
                compression=Compression.ZSTD,
                batch_bytes=small,
            ),
        ]


FULL = Scale(
    rows_100b=4_000_000, rows_1kb=800_000, rows_compressed=2_000_000, rows_written=1_000_000, batches=60, repetitions=3
)
QUICK = Scale(
    rows_100b=2_000_000, rows_1kb=400_000, rows_compressed=1_000_000, rows_written=1_000_000, batches=30, repetitions=1
)


class Application:
    """A Spark driver process that does one thing at a time."""

    def __init__(self, server: Server, *, settings: dict[str, str], log: Path) -> None:
        ours = server.name.startswith("ottla")
        side = {
            "format": "ottla" if ours else "kafka",
            "bootstrap": server.bootstrap,
            "jars": [] if ours else [str(jar) for jar in spark_connector.jars()],
            "settings": settings,
            "partitions": PARTITIONS,
        }
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_driver", json.dumps(side)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
            )
        self._log = log

    def wait_until_ready(self) -> None:
        self._answer()

    def ask(self, work: str, **options: object) -> dict[str, Any]:
        asked: IO[bytes] | None = self.process.stdin
        assert asked is not None
        asked.write(json.dumps({"work": work, **options}).encode() + b"\n")
        asked.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        answers = self.process.stdout
        assert answers is not None
        answer = answers.readline()
        if not answer:
            return {"error": f"Spark ended: see {self._log}"}
        found: dict[str, Any] = json.loads(answer)
        return found

    def stop(self) -> None:
        """Its Python workers and its JVM end with it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.stdout.close()
        stop(self.process)


@dataclass(slots=True)
class Side:
    server: Server
    application: Application
    settings: dict[str, str]
    """Of Spark."""
    log: Path
    written: int = field(default=0)

    @property
    def is_ours(self) -> bool:
        return self.server.name.startswith("ottla")

    def cpu_s(self) -> float:
        return self.server.cpu_s() + tree_cpu_s(self.application.process.pid)

    def new_topic(self) -> str:
        self.written += 1
        name = f"written-{self.written}"
        _create(self.server, name)
        return name


def _create(server: Server, name: str) -> None:
    with WireClient(server.port) as client:
        client.create_topics([name], partitions=PARTITIONS, replicas=server.replicas)
    wait_for_leaders(server.port, name)


# What is measured


def _rate(side: Side, work: str, **options: object) -> dict[str, Any]:
    before_s = side.cpu_s()
    found = side.application.ask(work, **options)
    if "error" in found:
        return found
    rows, seconds = found["rows"], found["seconds"]
    return {"rate": rows / seconds, "cpu_us": (side.cpu_s() - before_s) / rows * 1e6, "rows": rows, "seconds": seconds}


def _read(topic: str, **options: str) -> Callable[[Side, Scale], dict[str, Any]]:
    return lambda side, scale: _rate(side, "read", topic=topic, **options)


def _parquet(**options: str) -> Callable[[Side, Scale], dict[str, Any]]:
    return lambda side, scale: _rate(side, "parquet", topic="rows-100b", **options)


def _write(side: Side, scale: Scale) -> dict[str, Any]:
    return _rate(side, "write", topic=side.new_topic(), count=scale.rows_written, row_bytes=100)


def _micro(side: Side, scale: Scale) -> dict[str, Any]:
    return _in_steps(side.application.ask("micro", topic=side.new_topic(), batches=scale.batches))


def _micro_sink(side: Side, scale: Scale) -> dict[str, Any]:
    return _in_steps(
        side.application.ask("micro", topic=side.new_topic(), target=side.new_topic(), batches=scale.batches)
    )


def _in_steps(found: dict[str, Any]) -> dict[str, Any]:
    return found if "error" in found else {"p50_ms": found.pop("triggerExecution"), **found}


def _first(side: Side, scale: Scale) -> dict[str, Any]:
    """With a Spark of its own, which is not there before."""
    began = time.monotonic()
    application = Application(side.server, settings=side.settings, log=side.log)
    try:
        application.wait_until_ready()
        found = application.ask("first", topic="rows-100b")
        cpu_s = tree_cpu_s(application.process.pid)
        return found if "error" in found else {"first_s": time.monotonic() - began, "cpu_s": cpu_s}
    finally:
        application.stop()


Measure = Callable[[Side, Scale], dict[str, Any]]

WORKLOADS: dict[str, Measure] = {
    "read_100b": _read("rows-100b"),
    "read_1kb": _read("rows-1kb"),
    "read_lz4": _read("rows-lz4"),
    "read_zstd": _read("rows-zstd"),
    "parquet_100b": _parquet(),
    "write_100b": _write,
    "micro": _micro,
    "micro_sink": _micro_sink,
    "first": _first,
}
TUNED_WORKLOADS: dict[str, Measure] = {
    "read_100b": _read("rows-100b", **TUNED),
    "read_1kb": _read("rows-1kb", **TUNED),
    "read_lz4": _read("rows-lz4", **TUNED),
    "read_zstd": _read("rows-zstd", **TUNED),
    "parquet_100b": _parquet(**TUNED),
}
"""Spark's connector again, with what one may set."""


def _columns(side: Side, workload: str) -> Iterator[tuple[str, Measure]]:
    yield side.server.name, WORKLOADS[workload]
    if not side.is_ours and workload in TUNED_WORKLOADS:
        yield f"{side.server.name}-tuned", TUNED_WORKLOADS[workload]


# In turns


@contextlib.contextmanager
def _running(systems: Sequence[str], settings: dict[str, str], scale: Scale) -> Iterator[list[Side]]:
    with contextlib.ExitStack() as opened:
        sides = []
        for system in systems:
            directory = DATA / f"{os.getpid()}-{system}"
            server = make_server(system, directory)
            opened.callback(server.stop)
            server.start()
            for topic in scale.topics():
                _create(server, topic.name)
                fill(server.bootstrap, topic)
            log = DATA / f"spark-{system}.log"
            application = Application(server, settings=settings, log=log)
            opened.callback(application.stop)
            application.wait_until_ready()
            sides.append(Side(server, application, settings, log))
        yield sides


def _warm_up(side: Side, workloads: Sequence[str], scale: Scale) -> None:
    """Everything once, so that the JVM has compiled what is measured, and Python's workers are there."""
    print(f"warming up {side.server.name}", file=sys.stderr, flush=True)
    for workload in workloads:
        if workload != "first":
            WORKLOADS[workload](side, scale)


def run(
    systems: Sequence[str],
    workloads: Sequence[str],
    scale: Scale,
    *,
    settings: dict[str, str],
    done: Callable[[Run], None],
) -> list[Run]:
    DATA.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    with _running(systems, settings, scale) as sides:
        for side in sides:
            _warm_up(side, workloads, scale)
        for repetition in range(scale.repetitions):
            for workload in workloads:
                for side in sides[:: 1 if repetition % 2 == 0 else -1]:
                    for system, measure in _columns(side, workload):
                        others = others_cores()
                        runs.append(
                            Run(
                                workload=workload,
                                system=system,
                                repetition=repetition,
                                figures=measure(side, scale),
                                others=others,
                            )
                        )
                        done(runs[-1])
    return runs


def _tell(done: Run) -> None:
    print(f"{done.workload:14} {done.system:12} {line(done.figures)}", file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench spark", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORKLOADS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="once, with less data")
    parser.add_argument("--systems", default="ottla,kafka", help="ottla, ottla-os, kafka, kafka-durable")
    parser.add_argument("--repeat", type=int, help="interleaved repetitions")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark, for both"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    arguments = parser.parse_args(argv)
    if not set(arguments.names) <= set(WORKLOADS):
        parser.error(f"there are {', '.join(WORKLOADS)}")
    scale = QUICK if arguments.quick else FULL
    if arguments.repeat:
        scale = replace(scale, repetitions=arguments.repeat)
    try:
        runs = run(
            _available(arguments.systems.split(",")),
            arguments.names or list(WORKLOADS),
            scale,
            settings=dict(setting.split("=", 1) for setting in arguments.conf),
            done=_tell,
        )
    finally:
        shutil.rmtree(DATA, ignore_errors=True)
    print(table(runs))
    if arguments.json:
        arguments.json.write_text(json.dumps(as_json(runs), indent=1) + "\n")
    return 1 if any("error" in done.figures for done in runs) else 0


def _available(systems: list[str]) -> list[str]:
    try:
        spark_connector.jars()
    except KafkaUnavailableError as error:
        print(f"Ottla alone: {error}", file=sys.stderr)
        return [system for system in systems if system.startswith("ottla")]
    return systems

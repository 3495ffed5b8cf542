"""`ottla demo`: three nodes, a generator of events and the pipeline on Spark; watched, and checked at the end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.connection import require_reachable
from ottla.cli.demo_view import View, new_view
from ottla.cli.demo_watch import Watch
from ottla.cli.failures import CommandError
from ottla.cli.options import DURATION, PAIR
from ottla.cli.output import note
from ottla.cli.stdin_end import FLAG as UNTIL_STDIN_ENDS
from ottla.ingest.truth import Truth
from ottla.pipelines.checking import Finding, check, check_sent
from ottla.pipelines.project import Project
from ottla.pipelines.settings import PipelineSettings
from ottla.pipelines.standalone import SparkCluster
from ottla.spark import JavaMissingError, require_java

NODES: Final = 3
PARTITIONS: Final = 3
READY_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 60.0
LOOK_EVERY_S: Final = 0.5
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Spark for a minute or two: compiling code well would not pay."""
URL: Final = re.compile(r"http://[\w.:-]+")
LATENESS_S: Final = 10
BRISK: Final[dict[str, Any]] = {
    "lateness_s": LATENESS_S,
    "skew_s": 2,
    "window_s": 10,
    "slide_s": 5,
    "session_gap_s": 5,
    "payment_s": 8,
}
"""Seconds where a real service has minutes, so that there is something to see."""


@click.command
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"),
              show_default=True, help="For everything that is written. A demo that is there goes on.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65_533), default=9092, show_default=True, help="Of the first node.")
@click.option("--cluster-port", type=click.IntRange(1, 65_533), default=7946, show_default=True,
              help="The same, for what nodes say to each other.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=200.0, show_default=True,
              help="Events a second.")  # fmt: skip
@click.option("--for", "duration_ms", type=DURATION, default="1m", show_default=True, help="How long events are made.")
@click.option("--seed", type=int, help="Of the events; another each time unless given.")
@click.option("--http", "over_http", is_flag=True, help="Events come over HTTP, not by the Kafka protocol.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Spark runs as a cluster of a master and N workers, not in one process.",
)
@click.option("--conf", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Any setting of Spark.")
@click.option("--stay/--no-stay", default=None, help="Go on after the check, until Ctrl-C: on a terminal, by default.")
def command(
    directory: Path,
    port: int,
    cluster_port: int,
    rate: float,
    duration_ms: int,
    seed: int | None,
    over_http: bool,
    workers: int | None,
    conf: Sequence[tuple[str, str]],
    stay: bool | None,
) -> None:
    """Run all of it on this machine: three nodes, made-up events, the pipeline; and check that each event counted once.

    Shows rates, lag, batches and windows as they close. Without Java there is no Spark: then events are only sent, and
    counted in their topic.
    """
    bootstrap = ",".join(f"127.0.0.1:{port + at}" for at in range(NODES))
    settings = PipelineSettings(bootstrap=bootstrap, **BRISK)
    demo = Demo(directory.resolve(), settings, conf=dict(conf), has_spark=_has_spark())
    with _stoppable() as stopped, demo:
        demo.start_nodes(port, cluster_port)
        demo.start_gateway()
        if workers is not None:
            demo.start_spark(workers)
        demo.run(rate, duration_ms, seed, over_http=over_http, stopped=stopped)
        if stopped.is_set():
            raise KeyboardInterrupt
        findings = demo.check()
        for finding in findings:
            click.echo(("ok     " if finding.is_right else "WRONG  ") + str(finding))
        if not all(finding.is_right for finding in findings):
            raise CommandError("The results are not what was sent", hint=f"Look at {directory}/*.log.")
        if stay or (stay is None and sys.stdout.isatty()):
            click.echo(demo.parting())
            stopped.wait()


def _has_spark() -> bool:
    try:
        require_java()
    except JavaMissingError as error:
        note(f"{error}. Until then the demo goes without the pipeline.")
        return False
    try:
        import pyspark.pipelines  # noqa: F401 - only whether it is there
    except ImportError:
        note("Spark is not installed: pip install 'ottla[spark]'. Until then the demo goes without the pipeline.")
        return False
    return True


class Demo:
    """Its processes live as long as the `with` block."""

    def __init__(
        self,
        directory: Path,
        settings: PipelineSettings,
        *,
        conf: dict[str, str],
        has_spark: bool,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._master = "local[*]"
        self._conf = {"spark.driver.extraJavaOptions": QUICK_JAVA, **conf}
        self._has_spark = has_spark
        self._links: dict[str, str] = {}
        self._gateway = ""
        self._processes = ExitStack()
        self._truth = directory / "truth.jsonl"
        self._progress = directory / f"progress-{time.time_ns()}.jsonl"
        self._project = Project(directory / "pipeline")

    def __enter__(self) -> Demo:
        self._directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    # Processes

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """With its output in a file, and away from Ctrl-C: we say when it ends."""
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ottla", *arguments],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._processes.callback(_stop, process)
        return process

    def start_nodes(self, port: int, cluster_port: int) -> None:
        note(f"starting {NODES} nodes; everything is written to {self._directory}")
        nodes = self._start(
            "nodes", "up", "--nodes", str(NODES), "--port", str(port), "--cluster-port", str(cluster_port),
            "--data-dir", str(self._directory / "data"), UNTIL_STDIN_ENDS,
        )  # fmt: skip
        self._wait_for(nodes, "nodes", lambda: all(map(_answers, self._settings.bootstrap.split(","))))
        require_reachable(self._settings.bootstrap)

    def start_spark(self, workers: int) -> None:
        if self._has_spark:
            cluster = self._processes.enter_context(SparkCluster(self._directory, workers))
            self._master = cluster.master
            self._conf = {**cluster.conf, **self._conf}
            self._links["Spark cluster"] = cluster.page

    def start_gateway(self) -> None:
        """The HTTP API, and the console where it is installed."""
        log = self._directory / "gateway.log"
        log.write_bytes(b"")
        gateway = self._start(
            "gateway", "gateway", "--bootstrap", self._settings.bootstrap, "--http-port", "0", UNTIL_STDIN_ENDS
        )
        self._wait_for(gateway, "gateway", lambda: URL.search(log.read_text(errors="replace")) is not None)
        found = URL.search(log.read_text(errors="replace"))
        assert found is not None
        self._gateway = found[0]
        self._links["console" if _has_console() else "HTTP API"] = (
            f"{self._gateway}/console" if _has_console() else f"{self._gateway}/docs"
        )

    def _wait_for(self, process: subprocess.Popen[bytes], name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise CommandError(f"The {name} did not start: {self._last_words(name)}")
            time.sleep(0.05)

    def _last_words(self, name: str) -> str:
        lines = (self._directory / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("ottla: ") if lines else "it said nothing"

    def _start_pipeline(self) -> subprocess.Popen[bytes]:
        settings = [flag for name, value in BRISK.items() for flag in ("--set", f"{name}={value}")]
        conf = [flag for name, value in self._conf.items() for flag in ("--conf", f"{name}={value}")]
        return self._start(
            "pipeline", "pipeline", "run", "--dir", str(self._project.directory), "--bootstrap",
            self._settings.bootstrap, "--every", "200ms", "--master", self._master, "--partitions", str(PARTITIONS),
            "--progress", str(self._progress), *settings, *conf,
        )  # fmt: skip

    def _start_ingest(
        self, rate: float, duration_ms: int, seed: int | None, over_http: bool
    ) -> subprocess.Popen[bytes]:
        chosen = seed if seed is not None else time.time_ns() % 1_000_000_000
        way = ("--http", self._gateway) if over_http else ()
        return self._start(
            "ingest", "ingest", "--bootstrap", self._settings.bootstrap, "--topic", self._settings.raw, "--rate",
            str(rate), "--for", f"{duration_ms}ms", "--seed", str(chosen), "--lateness", f"{LATENESS_S}s",
            "--partitions", str(PARTITIONS), "--truth", str(self._truth), "--heartbeat",
            f"{self._settings.closing_s}s", *way,
        )  # fmt: skip

    # What happens

    def run(
        self, rate: float, duration_ms: int, seed: int | None, *, over_http: bool, stopped: threading.Event
    ) -> None:
        """Until everything that was sent has come out, or `stopped`."""
        pipeline = self._start_pipeline() if self._has_spark else None
        watch = Watch(self._settings, self._progress)
        self._processes.callback(watch.close)
        with new_view(self._settings, self._links) as view:
            if pipeline is not None:
                watch.state.phase = "Spark starts"
                self._until(lambda: watch.state.run_began > 0, watch, view, pipeline, stopped)
            ingest = self._start_ingest(rate, duration_ms, seed, over_http)
            watch.state.phase = "events come in"
            self._until(lambda: ingest.poll() is not None, watch, view, pipeline, stopped)
            if ingest.poll() and not stopped.is_set():
                raise CommandError(f"The generator failed: {self._last_words('ingest')}")
            if pipeline is not None:
                watch.state.phase = "the last windows close"
                after = watch.look().run_began
                self._until(lambda: watch.state.runs > after, watch, view, pipeline, stopped)

    def _until(
        self,
        is_done: Callable[[], bool],
        watch: Watch,
        view: View,
        pipeline: subprocess.Popen[bytes] | None,
        stopped: threading.Event,
    ) -> None:
        while not is_done() and not stopped.is_set():
            if pipeline is not None and pipeline.poll() is not None:
                raise CommandError(f"The pipeline failed: {self._last_words('pipeline')}")
            view.show(watch.look())
            stopped.wait(LOOK_EVERY_S)
        view.show(watch.look())
        self._links.update({"Spark": watch.state.spark_ui} if watch.state.spark_ui else {})

    def check(self) -> list[Finding]:
        truth = Truth.load(self._truth)
        sent = check_sent(truth, self._settings)
        return [sent, *check(truth, self._project)] if self._has_spark else [sent]

    def parting(self) -> str:
        links = [f"{name}: {link}" for name, link in self._links.items()]
        lag = f"ottla group describe {self._settings.group} --bootstrap {self._settings.bootstrap}"
        return "\n  ".join(["All of it goes on until Ctrl-C.", *links, lag])


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """Set by a signal. A second one does not wait until somebody looks."""
    stopped = threading.Event()

    def asked(number: int, _: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except OSError:
        return False
    return True


def _has_console() -> bool:
    try:
        from ottla.cli.console import has_console
    except ImportError:
        return False
    return has_console()

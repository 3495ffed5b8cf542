"""`ottla pipeline`: runs the ingestion pipeline on Spark, and checks what came out of it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.failures import CommandError
from ottla.cli.needed_topics import make_topics
from ottla.cli.options import BOOTSTRAP_DEFAULT, DURATION, PAIR
from ottla.cli.output import note, print_json, print_table
from ottla.pipelines.project import Project
from ottla.pipelines.settings import PipelineSettings

if TYPE_CHECKING:
    from ottla.pipelines.running import Runner, Told

FAILURES_MAX = 5
"""In a row, before a pipeline that runs again and again gives up."""

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("pipeline"),
    show_default=True,
    help="Description, tables and checkpoints of the pipeline.",
)


@click.group
def command() -> None:
    """The ingestion pipeline on Spark: events from topic `raw`, cleaned, counted in windows, joined; exactly once.

    docs/PIPELINES.md says what it does. It needs `pip install "ottla[spark]"` and Java 17 or 21.
    """


@command.command
@directory_option
@click.option("--bootstrap", metavar="HOST:PORT[,…]", envvar="OTTLA_BOOTSTRAP", show_envvar=True,
              help=f"A broker to begin with.  [default: {BOOTSTRAP_DEFAULT}]")  # fmt: skip
@click.option("--every", type=DURATION, metavar="TIME", help="Again and again, so long after the last run has ended.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's: in this process, or spark://HOST:PORT.")
@click.option("--partitions", type=click.IntRange(min=1), default=3, show_default=True, help="Of topics that are made.")
@click.option("--set", "given", type=PAIR, multiple=True, metavar="NAME=VALUE",
              help="A setting of a new pipeline, as lateness_s=600.")  # fmt: skip
@click.option("--conf", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Any setting of Spark.")
@click.option("--progress", "progress_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Append what happens, as lines of JSON.")  # fmt: skip
def run(
    directory: Path,
    bootstrap: str | None,
    every: int | None,
    master: str,
    partitions: int,
    given: Sequence[tuple[str, str]],
    conf: Sequence[tuple[str, str]],
    progress_file: Path | None,
) -> None:
    """Take everything that is in the raw topic now through to the end; with --every, go on until stopped.

    The directory is made by the first run, and keeps its settings. A run that is killed loses and doubles nothing:
    run it again. SIGTERM or Ctrl-C ends it after the run that is under way, a second one at once.
    """
    project = Project.at(directory, _settings(given, bootstrap))
    settings = project.settings
    if bootstrap is not None and bootstrap != settings.bootstrap:
        raise click.UsageError(f"The pipeline in {directory} reads from {settings.bootstrap}, not {bootstrap}.")
    make_topics(settings.bootstrap, settings.topics, partitions)
    from ottla.pipelines.running import Runner  # loads Spark

    stop = _stop_by_signal()
    with Runner(project, _teller(progress_file), master=master, conf=dict(conf)) as runner:
        _run(runner, every, stop)


def _settings(given: Sequence[tuple[str, str]], bootstrap: str | None) -> PipelineSettings:
    settings = PipelineSettings(bootstrap=bootstrap or BOOTSTRAP_DEFAULT)
    known = {field.name: type(getattr(settings, field.name)) for field in fields(settings)}
    try:
        return replace(settings, **{name: known[name](value) for name, value in given})
    except KeyError as error:
        raise click.UsageError(f"--set {error.args[0]}: there is {', '.join(known)}.") from None
    except ValueError as error:
        raise click.UsageError(f"--set: {error}.") from None


def _stop_by_signal() -> threading.Event:
    stop = threading.Event()

    def asked(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    return stop


def _teller(progress_file: Path | None) -> Callable[[Told], None]:
    file = None if progress_file is None else progress_file.open("a", buffering=1)

    def tell(what: Told) -> None:
        if file is not None:
            file.write(json.dumps(what) + "\n")
        else:
            note(_sentence(what))

    return tell


def _sentence(what: Told) -> str:
    match what["event"]:
        case "started":
            return f"Spark runs; its page is {what['spark_ui']}"
        case "batch":
            return f"{what['flow']}: batch {what['batch']}, {what['rows']:,} rows in {what['ms']:,} ms"
        case "run":
            return f"run {what['number']} has ended after {what['ms'] / 1_000:.1f} s"
    return str(what["says"])


def _run(runner: Runner, every_ms: int | None, stop: threading.Event) -> None:
    from ottla.pipelines.running import PipelineFailedError

    failures = 0
    while not stop.is_set():
        try:
            runner.run()
            failures = 0
        except PipelineFailedError as error:
            failures += 1
            if every_ms is None or failures >= FAILURES_MAX:
                raise CommandError(f"The run failed: {error}", hint="Run it again: it goes on where it was.") from error
            note(f"the run failed and is repeated: {error}")
        if every_ms is None:
            return
        stop.wait(every_ms / 1_000)


@command.command
@directory_option
@click.option("--truth", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True, metavar="FILE",
              help="What `ottla ingest --truth` wrote.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")
def check(directory: Path, truth: Path, as_json: bool) -> None:
    """Compare topics and tables with what must have come out: every event that was sent exactly once.

    Windows are in the results when they have closed: end `ottla ingest` with --heartbeat and let the pipeline run.
    """
    from ottla.ingest.truth import Truth
    from ottla.pipelines.checking import check as compare
    from ottla.pipelines.checking import check_sent

    project = Project(directory.resolve())
    if not project.spec.exists():
        raise CommandError(f"There is no pipeline in {directory}", hint="`ottla pipeline run` makes one.")
    known = Truth.load(truth)
    findings = [check_sent(known, project.settings), *compare(known, project)]
    rows = [(found.what, found.expected, found.found, found.missing, found.unexpected) for found in findings]
    if as_json:
        names = ("what", "expected", "found", "missing", "unexpected")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(("what", "expected", "found", "missing", "too many"), rows)
    if not all(found.is_right for found in findings):
        raise CommandError("The results are not what was sent")

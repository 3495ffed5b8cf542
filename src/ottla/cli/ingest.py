"""`ottla ingest`: events of an ingestion service, made up, into a topic."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path

import click

from ottla.cli.failures import CommandError, ExitCode
from ottla.cli.needed_topics import make_topics
from ottla.cli.options import DURATION, connected, now_ms
from ottla.cli.output import print_fields, print_json, progress
from ottla.ingest.events import Event, Generator, IngestSettings, heartbeat
from ottla.ingest.sending import HttpTransport, KafkaTransport, Transport, send_all
from ottla.ingest.truth import TruthFile

SHARE = click.FloatRange(0, 1)
DEFAULTS = IngestSettings()


class Account:
    """What was acknowledged: counted, shown, and written to the truth."""

    def __init__(self, truth: Path | None) -> None:
        self.fates: Counter[str] = Counter()
        self._truth = None if truth is None else TruthFile(truth)

    def add(self, event: Event) -> None:
        self.fates[event.fate.value] += 1
        if self._truth is not None:
            self._truth.add(event)

    def close(self) -> None:
        if self._truth is not None:
            self._truth.close()


@click.command
@click.option("--topic", default="raw", show_default=True, help="Where to; it is made if it is not there.")
@click.option("--partitions", type=click.IntRange(min=1), default=3, show_default=True, help="Of a topic that is made.")
@click.option("--http", "url", metavar="URL", help="Over HTTP to a node or gateway here, not by the Kafka protocol.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=DEFAULTS.rate, show_default=True,
              help="Events a second.")  # fmt: skip
@click.option("--events", type=click.IntRange(min=1), metavar="N", help="Stop after so many.")
@click.option("--for", "duration_ms", type=DURATION, metavar="TIME", help="Stop after so long.")
@click.option("--clients", type=click.IntRange(min=1), default=DEFAULTS.clients, show_default=True)
@click.option("--late", type=SHARE, default=DEFAULTS.late, show_default=True, help="Share of events that come late.")
@click.option("--duplicate", type=SHARE, default=DEFAULTS.duplicate, show_default=True, help="That come twice.")
@click.option("--malformed", type=SHARE, default=DEFAULTS.malformed, show_default=True, help="That are broken.")
@click.option("--too-late", type=SHARE, default=DEFAULTS.too_late, show_default=True, help="Too late to count.")
@click.option("--lateness", type=DURATION, default="10m", show_default=True, help="How old an event may be to count.")
@click.option("--seed", type=int, default=DEFAULTS.seed, show_default=True, help="The same seed, the same events.")
@click.option("--start-ms", type=click.IntRange(min=0), metavar="MS",
              help="When the events happen, from here on, all sent at once. By default: now, one after the other."
              )  # fmt: skip
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Append what was acknowledged, and what should become of it.")  # fmt: skip
@click.option("--heartbeat", "heartbeat_ms", type=DURATION, metavar="TIME",
              help="End with an event that says that so much time has passed: windows up to then close."
              )  # fmt: skip
@connected
def command(
    topic: str,
    partitions: int,
    url: str | None,
    rate: float,
    events: int | None,
    duration_ms: int | None,
    clients: int,
    late: float,
    duplicate: float,
    malformed: float,
    too_late: float,
    lateness: int,
    seed: int,
    start_ms: int | None,
    truth: Path | None,
    heartbeat_ms: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Make up events of an ingestion service and send them to a topic: what clients do, measure and order.

    Some are late, come twice, or are broken, in shares that can be chosen. What should become of each is known when it
    is made; with --truth it is written down, and `ottla pipeline check` compares it with what came out. Ctrl-C ends it.

    \b
      ottla ingest --rate 500 --for 1m --truth truth.jsonl
      ottla ingest --http http://127.0.0.1:8080 --malformed 0.1
    """
    try:
        settings = IngestSettings(
            rate=rate, clients=clients, late=late, duplicate=duplicate, malformed=malformed, too_late=too_late,
            lateness_ms=lateness, seed=seed,
        )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if url is not None and start_ms is not None:
        raise click.UsageError("Over HTTP records get the time of their arrival: leave out --start-ms.")
    account = Account(truth)
    transport = _transport(url, bootstrap, topic, partitions, account)
    made = _made(settings, now_ms() if start_ms is None else start_ms, events, duration_ms)
    began = time.monotonic()
    try:
        with _stoppable() as stopped, progress(f"events to {topic}", events, "events") as show:
            last_ms = _send(made, transport, account, show, paced=start_ms is None, stopped=stopped)
        if heartbeat_ms is not None and last_ms:
            send_all([heartbeat(last_ms + heartbeat_ms)], transport, paced=url is not None)
    finally:
        account.close()
    _summary(account, topic, time.monotonic() - began, as_json)


def _transport(url: str | None, bootstrap: str, topic: str, partitions: int, account: Account) -> Transport:
    if url is not None:
        http = HttpTransport(url, topic, account.add)
        http.create_topic(partitions)
        return http
    make_topics(bootstrap, [topic], partitions)
    return KafkaTransport(bootstrap, topic, account.add)


def _made(settings: IngestSettings, start_ms: int, count: int | None, duration_ms: int | None) -> Iterator[Event]:
    events: Iterator[Event] = iter(Generator(settings, start_ms))
    if duration_ms is not None:
        end_ms = start_ms + duration_ms
        events = takewhile(lambda event: event.timestamp_ms < end_ms, events)
    return islice(events, count)


def _send(
    events: Iterator[Event],
    transport: Transport,
    account: Account,
    show: Callable[[int], None],
    *,
    paced: bool,
    stopped: list[int],
) -> int:
    """The time of the last one."""
    last_ms = 0

    def watched() -> Iterator[Event]:
        nonlocal last_ms
        for event in events:
            show(account.fates.total())
            last_ms = event.timestamp_ms
            yield event

    send_all(watched(), transport, paced=paced, stop=lambda: bool(stopped))
    return last_ms


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """The signals that came: what was taken is still sent, and told."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda signum, _: came.append(signum)) for number in _SIGNALS}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _summary(account: Account, topic: str, seconds: float, as_json: bool) -> None:
    told = {"topic": topic, "sent": account.fates.total(), **dict(sorted(account.fates.items()))}
    if not account.fates:
        raise CommandError("Nothing was sent", exit_code=ExitCode.FAILED)
    if as_json:
        print_json({**told, "seconds": round(seconds, 3)})
    else:
        print_fields({**told, "seconds": round(seconds, 1)})

"""`ottla produce`: lines, JSON or whole files become records.

Everything that was read is sent before the command ends, at Ctrl-C too; if a record was not acknowledged the command
fails and says which line was the first.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

import click

from ottla.cli.completing import topic_names
from ottla.cli.connection import CLIENT_ID, require_reachable
from ottla.cli.failures import CommandError
from ottla.cli.options import DURATION, PAIR, connected
from ottla.cli.output import note, print_json, progress
from ottla.cli.record_input import Header, InputRecord, line_parser, parse_json
from ottla.cli.sending import Sender
from ottla.client.settings import COMPRESSIONS, AckMode, ProducerConfig
from ottla.config.units import KIB

ACKS = {"0": AckMode.NONE, "1": AckMode.LEADER, "all": AckMode.ALL}
LINGER_MS = 5
"""Enough for a batch to fill from a file, too little for a person to notice."""
BATCH_BYTES = 256 * KIB
TIMED_FROM_RECORDS = 1_000
"""For fewer, the time is that of connecting."""


@click.command
@click.argument("topic", shell_complete=topic_names)
@click.argument("files", metavar="[FILE]…", nargs=-1, type=click.File("rb"))
@click.option("--key", metavar="KEY", help="The same key for every record.")
@click.option("--key-separator", metavar="TEXT", help="A line is KEY, then this, then the value.")
@click.option("--header", "-H", "headers", type=PAIR, multiple=True, metavar="NAME=VALUE", help="On every record.")
@click.option("--whole-file", is_flag=True, help="Each file is one record, not one per line.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Not by key: into this one.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most N records a second.")
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True, help="Who has it on disk.")
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--timeout", type=DURATION, default="30s", show_default=True, help="To get a record acknowledged.")
@connected
def command(
    topic: str,
    files: Sequence[BinaryIO],
    key: str | None,
    key_separator: str | None,
    headers: Sequence[tuple[str, str]],
    whole_file: bool,
    partition: int | None,
    rate: float | None,
    acks: str,
    compression: str,
    timeout: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write records to TOPIC: one per line of FILEs, or of standard input.

    With --json, each line is an object with key, value, headers, partition and timestamp_ms, all of them optional: what
    `ottla consume --json` prints. The summary is JSON too.

    \b
      echo hello | ottla produce greetings
      ottla produce orders --key-separator : --rate 100 < orders.txt
      ottla consume orders --json | ottla produce copies --json
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("Give one of --key and --key-separator.")
    require_reachable(bootstrap)
    config = ProducerConfig(
        bootstrap_servers=bootstrap,
        client_id=CLIENT_ID,
        acks=ACKS[acks],
        compression_type=compression,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        delivery_timeout_ms=timeout,
    )
    sources = files or [sys.stdin.buffer]
    pieces = (source.read() for source in sources) if whole_file else _lines(sources)
    parse = parse_json if as_json else line_parser(key=key, separator=key_separator)
    records = _records(pieces, parse, tuple((name, value.encode()) for name, value in headers), partition)
    sender = Sender(topic, config)
    started = time.monotonic()
    try:
        with progress(f"to {topic}", None) as show, sender:
            sender.send_all(records, rate, show)
    finally:
        _print_summary(topic, sender, time.monotonic() - started, as_json)


def _lines(sources: Sequence[BinaryIO]) -> Iterator[bytes]:
    for source in sources:
        if source.isatty():
            note("Type records, one a line; Ctrl-D ends.")
        for line in source:
            yield line.removesuffix(b"\n")


def _records(
    pieces: Iterable[bytes], parse: Callable[[bytes], InputRecord], headers: tuple[Header, ...], partition: int | None
) -> Iterator[InputRecord]:
    """A line that can't be understood ends the command, and is named."""
    for number, piece in enumerate(pieces, 1):
        try:
            record = parse(piece)
        except ValueError as error:
            raise CommandError(f"Line {number}: {error}") from None
        if headers or partition is not None:
            wanted = partition if record.partition is None else record.partition
            record = replace(record, headers=(*record.headers, *headers), partition=wanted)
        yield record


def _print_summary(topic: str, sender: Sender, seconds: float, as_json: bool) -> None:
    if as_json:
        places = [{"partition": at, "first_offset": span[0], "last_offset": span[1]} for at, span in sender.spans()]
        facts = {"topic": topic, "records": sender.acknowledged, "bytes": sender.bytes_acknowledged}
        print_json({**facts, "seconds": round(seconds, 3), "partitions": places})
    else:
        count = f"{sender.acknowledged:,} record{'' if sender.acknowledged == 1 else 's'} to {topic}"
        note(f"{count} in {seconds:.1f} s" if sender.acknowledged >= TIMED_FROM_RECORDS else count)

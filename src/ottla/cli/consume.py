"""`ottla consume`: print what a topic holds, and what arrives."""

import sys
from collections.abc import Sequence

import click

from ottla.cli.completing import group_names, topic_names
from ottla.cli.connection import CLIENT_ID, admin
from ottla.cli.options import DURATION, PARTITIONS, POSITION, connected
from ottla.cli.places import partitions_of, resolve
from ottla.cli.reading import Reader, Stop
from ottla.cli.record_output import (
    Formatter,
    for_terminal,
    hex_formatter,
    json_formatter,
    template_formatter,
    text_formatter,
)
from ottla.cli.times import Anchor, Position
from ottla.client.admin import Admin
from ottla.client.settings import ConsumerConfig, OffsetResetPolicy
from ottla.types import TopicPartition

BEGINNING = Position(anchor=Anchor.BEGINNING)
END = Position(anchor=Anchor.END)


@click.command
@click.argument("topics", metavar="TOPIC…", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--from", "start", type=POSITION, metavar="PLACE", help="Where to begin; the beginning without it.")
@click.option("--until", type=POSITION, metavar="PLACE", help="Where to stop: end, an offset, a time.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more at the end. --from end does so by itself.")
@click.option("--max", "max_records", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option("--timeout", type=DURATION, help="Stop when nothing came for so long.")
@click.option(
    "--group",
    metavar="GROUP",
    shell_complete=group_names,
    help="As a member of it: go on where it is, commit what is read.",
)
@click.option("--partition", "partitions", type=PARTITIONS, metavar="N,…", help="Only these: 0, 0,3 or 0-5.")
@click.option("--format", "layout", default="text", metavar="FORMAT", help="text, json, hex or a template (see above).")
@click.option("--keys", is_flag=True, help="text: the key before the value.")
@click.option("--headers", is_flag=True, help="text: the headers.")
@click.option("--timestamps", is_flag=True, help="text: the time of the record.")
@click.option("--offsets", is_flag=True, help="text: topic, partition and offset.")
@connected
def command(
    topics: Sequence[str],
    start: Position | None,
    until: Position | None,
    follow: bool,
    max_records: int | None,
    timeout: int | None,
    group: str | None,
    partitions: list[int] | None,
    layout: str,
    keys: bool,
    headers: bool,
    timestamps: bool,
    offsets: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of TOPICs, up to the end as it is now; with --follow, also what arrives.

    A PLACE is beginning, end, an offset (42), the last N records of each partition (-10), a time ago (-5m) or a time
    (2026-01-31T12:00:00Z). A template names its fields in braces: '{partition}:{offset} {key} {value}'; there are
    topic, partition, offset, timestamp, timestamp_ms, key, value, headers and size.

    \b
      ottla consume greetings
      ottla consume orders --from -5m --follow --json
      ottla consume orders --group billing --max 100
    """
    formatter = _formatter(layout if not as_json else "json", keys, headers, timestamps, offsets)
    follow = (follow or start == END) and until != END
    config = ConsumerConfig(
        bootstrap_servers=bootstrap,
        client_id=CLIENT_ID,
        group_id=group,
        auto_offset_reset=OffsetResetPolicy.LATEST if start == END else OffsetResetPolicy.EARLIEST,
    )
    if group is not None:
        _check_group_options(start, until, partitions)
    with admin(bootstrap) as cluster:
        held = [at for topic in topics for at in partitions_of(cluster, topic, partitions)]
        starts = resolve(cluster, held, start or BEGINNING)
        stop = Stop(
            follow=follow,
            ends=_ends(cluster, held, until, follow),
            until_ms=until.value if until is not None and until.anchor is Anchor.TIME else None,
            max_records=max_records,
            idle_ms=timeout,
        )
    reader = Reader(config, stop)
    if group is None:
        reader.assign({at: offset for at, offset in starts.items() if offset < stop.ends.get(at, offset + 1)})
    else:
        reader.subscribe(list(topics))
    _print(reader, formatter)


def _check_group_options(start: Position | None, until: Position | None, partitions: list[int] | None) -> None:
    if start is not None and start.anchor not in (Anchor.BEGINNING, Anchor.END):
        raise click.UsageError("A group goes on where it is: move it with `ottla group reset`, not with --from.")
    if partitions is not None:
        raise click.UsageError("A group decides itself who reads which partition: leave --partition out.")
    if until is not None and until.anchor not in (Anchor.END, Anchor.TIME):
        raise click.UsageError("In a group, --until can be end or a time.")


def _ends(
    cluster: Admin, partitions: Sequence[TopicPartition], until: Position | None, follow: bool
) -> dict[TopicPartition, int]:
    if until is not None and until.anchor is Anchor.OFFSET and follow:
        return dict.fromkeys(partitions, until.value)  # it may not be there yet
    if until is not None and until.anchor is not Anchor.TIME:
        return resolve(cluster, partitions, until)
    return {} if follow else resolve(cluster, partitions, END)


def _print(reader: Reader, formatter: Formatter) -> None:
    """Every batch is written out before the next is asked for: a reader at the other end of a pipe sees it at once."""
    out = sys.stdout.buffer
    try:
        for records in reader.batches():
            if records:
                out.write(b"".join([formatter(record) for record in records]))
                out.flush()
    finally:
        reader.close()


def _formatter(layout: str, keys: bool, headers: bool, timestamps: bool, offsets: bool) -> Formatter:
    match layout:
        case "json":
            return json_formatter
        case "hex":
            return hex_formatter
        case "text":
            chosen = text_formatter(keys=keys, headers=headers, timestamps=timestamps, offsets=offsets)
        case _ if "{" in layout:
            chosen = _template_formatter(layout)
        case _:
            raise click.UsageError(f"--format {layout!r} is none of text, json, hex, nor a template with {{fields}}.")
    return for_terminal(chosen) if sys.stdout.isatty() else chosen


def _template_formatter(template: str) -> Formatter:
    try:
        return template_formatter(template)
    except ValueError as error:
        raise click.UsageError(f"--format: {error}.") from None

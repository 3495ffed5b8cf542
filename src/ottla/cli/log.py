"""`ottla log`: look into the files of a node, without the node."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import click

from ottla.cli.options import json_option
from ottla.cli.segments import FoundBatch, batches, segment_files
from ottla.cli.times import moment_text
from ottla.protocol.records import NO_PRODUCER_ID


@click.group
def command() -> None:
    """Read and check the files of a data directory, while no node uses it."""


@command.command
@click.argument("path", metavar="PATH")
@click.option("--topic", metavar="TOPIC", help="Only this one's partitions.")
@click.option("--from", "start", type=int, default=0, metavar="OFFSET", help="From this offset on.")
@click.option("--max", "maximum", type=click.IntRange(min=1), metavar="N", help="At most N batches, or records.")
@click.option("--records", "with_records", is_flag=True, help="The records themselves, one JSON object a line.")
@json_option
def dump(path: str, topic: str | None, start: int, maximum: int | None, with_records: bool, as_json: bool) -> None:
    """Print the batches in a segment file, a partition's directory or a data directory.

    With --json or --records: one JSON object a line. The files are in Kafka's format, so that this reads Kafka's too.
    """
    found = _found(path, topic, start)
    if with_records:
        records = (record for batch in found for record in batch.records_json() if record["offset"] >= start)
        _print_lines(itertools.islice(records, maximum))
    elif as_json:
        _print_lines(batch.as_json() for batch in itertools.islice(found, maximum))
    else:
        for batch in itertools.islice(found, maximum):
            click.echo(_line(batch))


def _found(path: str, topic: str | None, start: int) -> Iterator[FoundBatch]:
    for file in segment_files(path, topic):
        for batch in batches(file):
            if batch.header.last_offset >= start:
                yield batch


def _print_lines(values: Iterator[dict[str, Any]]) -> None:
    for value in values:
        click.echo(json.dumps(value))


def _line(batch: FoundBatch) -> str:
    header = batch.header
    kinds = [
        name for name, is_so in (("transactional", header.is_transactional), ("control", header.is_control)) if is_so
    ]
    producer = f"producer {header.producer_id}/{header.producer_epoch} seq {header.base_sequence}"
    parts = [
        f"{batch.file} at {batch.position}: offsets {header.base_offset}..{header.last_offset}",
        f"{header.record_count} record{'' if header.record_count == 1 else 's'}",
        f"{header.size_bytes} bytes",
        header.compression.name.lower(),
        f"epoch {header.leader_epoch}",
        moment_text(header.max_timestamp_ms),
        *([producer] if header.producer_id != NO_PRODUCER_ID else []),
        *kinds,
        *([batch.problem.upper()] if batch.problem else []),
    ]
    return ", ".join(parts)

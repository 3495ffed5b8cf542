"""`ottla log`: look into the files of a node, without the node."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from ottla.cli.failures import CommandError, ExitCode
from ottla.cli.options import json_option
from ottla.cli.output import note, print_json, print_table, progress
from ottla.cli.segments import FoundBatch, batches, is_behind_a_journal, partition_directories, segment_files
from ottla.cli.times import moment_text
from ottla.protocol.records import NO_PRODUCER_ID
from ottla.runtime.directory_lock import lock_owner
from ottla.runtime.disk import OsDisk
from ottla.storage.verify import VerifyReport, verify_log_directory


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
    What a node wrote last may be in its journal alone while it runs, and after a crash until its next start: then a
    remark says so.
    """
    if is_behind_a_journal(path):
        note("The node was not stopped: what it wrote last may be in its journal alone, and not in these files.")
    found = _found(path, topic, start)
    if with_records:
        records = (record for batch in found for record in batch.records_json() if record["offset"] >= start)
        _print_lines(itertools.islice(records, maximum))
    elif as_json:
        _print_lines(batch.as_json() for batch in itertools.islice(found, maximum))
    else:
        for batch in itertools.islice(found, maximum):
            click.echo(_line(batch))


@command.command
@click.argument("data_dir", metavar="DATA_DIR")
@click.option("--topic", metavar="TOPIC", help="Only this one's partitions.")
@json_option
def verify(data_dir: str, topic: str | None, as_json: bool) -> int:
    """Check every checksum, offset and index entry of a data directory. Exit code 1 if something is wrong.

    Nothing is changed. After a crash, start the node once before: what recovery would cut off is a problem here.
    """
    owner = lock_owner(data_dir)
    if owner is not None:
        sentence = f"{data_dir} is in use by process {owner.pid}, whose files change while they are read"
        raise CommandError(sentence, hint="Stop it first.", exit_code=ExitCode.DIRECTORY_LOCKED)
    directories = partition_directories(data_dir, topic)
    disk = OsDisk(data_dir)
    reports = []
    with progress("checking", len(directories), "partitions") as show:
        for directory in directories:
            reports.append(verify_log_directory(disk, directory))
            show(len(reports))
    _print_reports(reports, as_json)
    return ExitCode.OK if all(report.is_sound for report in reports) else ExitCode.FAILED


def _print_reports(reports: Sequence[VerifyReport], as_json: bool) -> None:
    problems = [problem for report in reports for problem in report.problems]
    if as_json:
        print_json({"sound": not problems, "partitions": [_report_json(report) for report in reports]})
        return
    columns = ["partition", "segments", "batches", "records", "bytes", "first offset", "next offset", "problems"]
    rows = [
        (
            report.directory,
            report.segments,
            report.batches,
            report.records,
            report.size_bytes,
            report.start_offset,
            report.end_offset,
            len(report.problems),
        )
        for report in reports
    ]
    print_table(columns, rows)
    for problem in problems:
        click.echo(str(problem))


def _report_json(report: VerifyReport) -> dict[str, Any]:
    fields = asdict(report)
    return {**fields, "problems": [{**asdict(problem), "text": str(problem)} for problem in report.problems]}


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

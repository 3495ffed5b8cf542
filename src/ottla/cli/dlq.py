"""`ottla dlq`: records that could not be processed, and their way back."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ottla.cli.connection import CLIENT_ID, admin
from ottla.cli.failures import CommandError
from ottla.cli.options import connected
from ottla.cli.output import confirm, note, print_changes, print_fields, print_json, print_table
from ottla.cli.reading import Reader, Stop
from ottla.cli.record_output import OutputRecord, json_bytes
from ottla.cli.times import moment_text
from ottla.client.admin import Admin
from ottla.client.cluster import EARLIEST, LATEST
from ottla.client.errors import GroupNotFoundError
from ottla.client.settings import ConsumerConfig
from ottla.stream.dead_letter import SUFFIX, DeadLetter, parse
from ottla.stream.redrive import redrive, redrive_group
from ottla.types import TopicPartition

SHOWN_MAX = 20


@click.group
def command() -> None:
    """Dead letters: records that a stream (`ottla.stream`) could not process, with the reason in their headers.

    A letter waits until it is redriven. `redrive` sends it back to its topic, in a transaction, so that one that is
    interrupted neither loses nor doubles one.
    """


@command.command("list")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@connected
def list_letters(topics: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """List topics with dead letters, and how many wait: those named *.dlq, or the given ones."""
    with admin(bootstrap) as cluster:
        names = topics or [topic.name for topic in cluster.list_topics() if topic.name.endswith(SUFFIX)]
        rows = [(name, *_summary(cluster, bootstrap, name)) for name in names]
    columns = ("topic", "waiting", "groups", "oldest", "newest")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows, empty="No topics with dead letters.")


def _summary(cluster: Admin, bootstrap: str, topic: str) -> tuple[int, str | None, str | None, str | None]:
    count, groups, times = 0, set[str](), list[int]()
    for _, letter in _letters(bootstrap, _waiting(cluster, topic), _ends(cluster, topic)):
        count += 1
        groups.add(letter.group)
        times = [min([*times[:1], letter.failed_at_ms]), max([*times[1:], letter.failed_at_ms])]
    if not count:
        return 0, None, None, None
    return count, ", ".join(sorted(groups)), moment_text(times[0]), moment_text(times[1])


@command.command("show")
@click.argument("topic")
@click.option("--max", "limit", type=click.IntRange(1), default=SHOWN_MAX, show_default=True, help="So many at most.")
@click.option("--all", "everything", is_flag=True, help="Those that were redriven, too.")
@click.option("--traceback", "tracebacks", is_flag=True, help="With the whole traceback.")
@connected
def show_letters(topic: str, limit: int, everything: bool, tracebacks: bool, bootstrap: str, as_json: bool) -> None:
    """Show the dead letters of a topic that wait: where each came from, how often it was tried, and what went wrong."""
    with admin(bootstrap) as cluster:
        starts = _starts(cluster, topic) if everything else _waiting(cluster, topic)
        ends = _ends(cluster, topic)
    found = list(_letters(bootstrap, starts, ends, limit))
    if as_json:
        print_json([_document(record, letter) for record, letter in found])
        return
    for number, (record, letter) in enumerate(found):
        if number:
            click.echo()
        _print_letter(record, letter, tracebacks)
    if not found:
        note("No letters.")


def _document(record: OutputRecord, letter: DeadLetter) -> dict[str, object]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "source": {"topic": letter.at.topic, "partition": letter.at.partition, "offset": letter.offset},
        "timestamp_ms": letter.timestamp_ms,
        "group": letter.group,
        "deliveries": letter.deliveries,
        "failed_at_ms": letter.failed_at_ms,
        "error": letter.error,
        "traceback": letter.traceback,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [{"name": name, **json_bytes("value", value)} for name, value in letter.headers],
    }


def _print_letter(record: OutputRecord, letter: DeadLetter, tracebacks: bool) -> None:
    print_fields(
        {
            "letter": f"{record.at} at {record.offset}",
            "from": f"{letter.at} at {letter.offset}",
            "group": letter.group,
            "deliveries": letter.deliveries,
            "failed": moment_text(letter.failed_at_ms),
            "error": letter.error,
            "key": _text(record.key),
            "value": _text(record.value),
        }
    )
    if tracebacks:
        for line in letter.traceback.rstrip().splitlines():
            print_fields({"": line})


def _text(data: bytes | None) -> str | None:
    return None if data is None else f"{data.decode(errors='backslashreplace'):.200}"


@command.command("redrive")
@click.argument("topic")
@click.option("--max", "limit", type=click.IntRange(1), help="So many at most, the oldest of each partition first.")
@click.option("--to", metavar="TOPIC", help="Send all of them there, and not to where they came from.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def redrive_letters(topic: str, limit: int | None, to: str | None, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Send the dead letters of a topic back to where they came from, to be processed again.

    They carry how often they were tried already. Those that fail again come back as new letters.
    """
    with admin(bootstrap) as cluster:
        if to is not None:
            cluster.describe_topic(to)
        waiting = sum(1 for _ in _letters(bootstrap, _waiting(cluster, topic), _ends(cluster, topic)))
    count = waiting if limit is None else min(waiting, limit)
    confirm(f"Send {count} letters of {topic} back?", yes=yes)
    done = redrive(topic, count, bootstrap_servers=bootstrap, to=to)
    if done.letters + done.others < count:
        raise CommandError(f"{done.letters} of {count} letters were sent", hint="Run it again for the others.")
    print_changes({"redriven": done.letters, "waiting": waiting - done.letters}, as_json)


# Reading


def _starts(cluster: Admin, topic: str) -> dict[TopicPartition, int]:
    return {at: found.offset for at, found in cluster.topic_offsets(topic, EARLIEST).items()}


def _ends(cluster: Admin, topic: str) -> dict[TopicPartition, int]:
    return {at: found.offset for at, found in cluster.topic_offsets(topic, LATEST).items()}


def _waiting(cluster: Admin, topic: str) -> dict[TopicPartition, int]:
    """Where the letters begin that were not redriven."""
    starts = _starts(cluster, topic)
    try:
        done = cluster.group_offsets(redrive_group(topic))
    except GroupNotFoundError:
        return starts
    return {at: max(start, done[at].offset) if at in done else start for at, start in starts.items()}


def _letters(
    bootstrap: str, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], limit: int | None = None
) -> Iterator[tuple[OutputRecord, DeadLetter]]:
    wanted = {at: offset for at, offset in starts.items() if offset < ends[at]}
    if not wanted:
        return
    config = ConsumerConfig(bootstrap_servers=bootstrap, client_id=CLIENT_ID)
    reader = Reader(config, Stop(follow=False, ends=ends))
    reader.assign(wanted)
    count = 0
    try:
        for records in reader.batches():
            for record in records:
                letter = parse(record.headers)
                if letter is not None:
                    yield record, letter
                    count += 1
                    if count == limit:
                        return
    finally:
        reader.close()

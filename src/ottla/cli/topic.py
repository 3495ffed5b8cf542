"""`ottla topic`: what topics there are, and what becomes of them."""

from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.completing import topic_names
from ottla.cli.connection import admin
from ottla.cli.options import PAIR, PARTITIONS, POSITION, connected
from ottla.cli.output import confirm, note, print_changes, print_fields, print_json, print_table
from ottla.cli.places import partitions_of, resolve
from ottla.cli.times import Position
from ottla.client.admin import Admin
from ottla.client.cluster import EARLIEST, LATEST, ConfigSource, ResourceType, TopicDescription
from ottla.client.errors import TopicExistsError, TopicNotFoundError
from ottla.types import TopicPartition

Pairs = tuple[tuple[str, str], ...]


@click.group
def command() -> None:
    """List, create, describe, change and delete topics."""


@command.command("list")
@click.option("--internal", is_flag=True, help="Also those that the brokers keep for themselves.")
@connected
def list_topics(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List the topics."""
    with admin(bootstrap) as cluster:
        topics = cluster.list_topics(include_internal=internal)
    if as_json:
        print_json([_summary(topic.name, topic.partitions, topic.replication_factor) for topic in topics])
        return
    rows = [(topic.name, topic.partitions, topic.replication_factor) for topic in topics]
    print_table(["topic", "partitions", "replicas"], rows, empty="There are no topics yet.")


@command.command
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(min=1), help="How many; the broker's default without it.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Copies; the broker's default without it.")
@click.option("--config", "configs", type=PAIR, multiple=True, metavar="NAME=VALUE", help="E.g. retention.ms=3600000.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic is there already.")
@connected
def create(
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: Pairs,
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create topics."""
    created = []
    with admin(bootstrap) as cluster:
        for name in names:
            try:
                cluster.create_topic(
                    name, partitions=partitions, replication_factor=replication_factor, config=dict(configs)
                )
            except TopicExistsError:
                if not if_not_exists:
                    raise
            else:
                created.append(name)
    print_changes({"created": created}, as_json)


@command.command
@click.argument("names", metavar="[TOPIC]…", nargs=-1, shell_complete=topic_names)
@connected
def describe(names: Sequence[str], bootstrap: str, as_json: bool) -> None:
    """Show partitions, offsets and configs of topics (of all of them if none is named)."""
    with admin(bootstrap) as cluster:
        wanted = names or [topic.name for topic in cluster.list_topics()]
        described = [_described(cluster, name) for name in wanted]
    if as_json:
        print_json(described)
        return
    for at, topic in enumerate(described):
        if at:
            click.echo()
        _print_description(topic)
    if not described:
        note("There are no topics yet.")


@command.command
@click.argument("names", metavar="TOPIC…", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="Succeed if there is no such topic.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@connected
def delete(names: Sequence[str], if_exists: bool, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics with all their records."""
    confirm(f"Delete {', '.join(names)} with all records?", yes=yes)
    deleted = []
    with admin(bootstrap) as cluster:
        for name in names:
            try:
                cluster.delete_topic(name)
            except TopicNotFoundError:
                if not if_exists:
                    raise
            else:
                deleted.append(name)
    print_changes({"deleted": deleted}, as_json)


@command.command
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("--partitions", type=click.IntRange(min=1), help="The new number of partitions: it can only grow.")
@click.option("--config", "configs", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Set a config.")
@click.option("--delete-config", "removed", multiple=True, metavar="NAME", help="Back to the default.")
@connected
def alter(
    name: str, partitions: int | None, configs: Pairs, removed: Sequence[str], bootstrap: str, as_json: bool
) -> None:
    """Add partitions to a topic, or change its configs."""
    if partitions is None and not configs and not removed:
        raise click.UsageError("Nothing to change: give --partitions, --config or --delete-config.")
    with admin(bootstrap) as cluster:
        if configs or removed:
            cluster.alter_config(ResourceType.TOPIC, name, {**dict(configs), **dict.fromkeys(removed)})
        if partitions is not None:
            cluster.create_partitions(name, partitions)
    changes: dict[str, object] = {"topic": name}
    if partitions is not None:
        changes["partitions"] = partitions
    if configs:
        changes["set"] = dict(configs)
    if removed:
        changes["unset"] = list(removed)
    print_changes(changes, as_json)


@command.command("delete-records")
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("--before", type=POSITION, required=True, metavar="PLACE", help="Offset, end, or a time like -7d.")
@click.option("--partition", "partitions", type=PARTITIONS, metavar="N,…", help="Only these: 0, 0,3 or 0-5.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@connected
def delete_records(
    name: str, before: Position, partitions: list[int] | None, yes: bool, bootstrap: str, as_json: bool
) -> None:
    """Delete the records before a place, for good."""
    with admin(bootstrap) as cluster:
        targets = resolve(cluster, partitions_of(cluster, name, partitions), before)
        confirm(f"Delete records of {len(targets)} partitions of {name}?", yes=yes)
        starts = cluster.delete_records(targets)
    if as_json:
        print_json(
            [{"topic": at.topic, "partition": at.partition, "start_offset": starts[at]} for at in sorted(starts)]
        )
        return
    print_table(["partition", "first offset now"], [(at.partition, starts[at]) for at in sorted(starts)])


def _described(cluster: Admin, name: str) -> dict[str, Any]:
    topic = cluster.describe_topic(name)
    configs = cluster.describe_config(ResourceType.TOPIC, name)
    own = {entry.name: entry.value for entry in configs.values() if entry.source is ConfigSource.TOPIC}
    return {
        **_summary(name, len(topic.partitions), max(len(info.replicas) for info in topic.partitions)),
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "configs": own,
        "partition_details": _partition_details(cluster, topic),
    }


def _partition_details(cluster: Admin, topic: TopicDescription) -> list[dict[str, Any]]:
    led = [TopicPartition(topic.name, info.partition) for info in topic.partitions if info.leader is not None]
    starts = cluster.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = cluster.list_offsets(dict.fromkeys(led, LATEST))
    details = []
    for info in topic.partitions:
        at = TopicPartition(topic.name, info.partition)
        details.append(
            {
                "partition": info.partition,
                "leader": info.leader,
                "replicas": list(info.replicas),
                "isr": list(info.isr),
                "start_offset": starts[at].offset if at in starts else None,
                "end_offset": ends[at].offset if at in ends else None,
            }
        )
    return details


def _summary(name: str, partitions: int, replication_factor: int) -> dict[str, Any]:
    return {"topic": name, "partitions": partitions, "replication_factor": replication_factor}


def _print_description(topic: dict[str, Any]) -> None:
    configs = ", ".join(f"{name}={value}" for name, value in topic["configs"].items())
    print_fields(
        {
            "topic": topic["topic"],
            "id": topic["topic_id"],
            "partitions": topic["partitions"],
            "replicas": topic["replication_factor"],
            "own configs": configs or None,
        }
    )
    columns = ["partition", "leader", "replicas", "in sync", "first offset", "next offset"]
    rows = [
        (
            part["partition"],
            part["leader"],
            " ".join(map(str, part["replicas"])),
            " ".join(map(str, part["isr"])),
            part["start_offset"],
            part["end_offset"],
        )
        for part in topic["partition_details"]
    ]
    print_table(columns, rows)

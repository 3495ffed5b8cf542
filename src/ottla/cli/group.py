"""`ottla group`: who reads what, how far behind they are, and where they go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.completing import group_names
from ottla.cli.connection import admin
from ottla.cli.options import POSITION, TOPIC_PARTITIONS, connected
from ottla.cli.output import confirm, note, print_changes, print_fields, print_json, print_table
from ottla.cli.places import partitions_of, resolve, within
from ottla.cli.times import Position, duration_text
from ottla.client.admin import Admin
from ottla.client.cluster import GroupDescription, GroupPartitionLag
from ottla.types import TopicPartition


@click.group
def command() -> None:
    """Consumer groups: members, lag, offsets."""


@command.command("list")
@connected
def list_groups(bootstrap: str, as_json: bool) -> None:
    """List the groups."""
    with admin(bootstrap) as cluster:
        groups = cluster.list_groups()
    if as_json:
        print_json([{"group": group.group_id, "state": group.state, "type": group.type} for group in groups])
        return
    rows = [(group.group_id, group.state, group.type) for group in groups]
    print_table(["group", "state", "type"], rows, empty="There are no groups yet.")


@command.command
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@connected
def describe(name: str, bootstrap: str, as_json: bool) -> None:
    """Show the members of a group, and its lag in records and in seconds.

    Lag in seconds is the age of the next record that the group has not read: 0 when it has caught up.
    """
    with admin(bootstrap) as cluster:
        group = cluster.describe_group(name)
        lags = cluster.group_lag(name)
    if as_json:
        print_json(_group_json(group, lags))
        return
    _print_group(group, lags)


@command.command
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option("--to", "place", type=POSITION, metavar="PLACE", help="beginning, end, an offset, or a time (-5m, ISO).")
@click.option("--shift", type=int, metavar="N", help="N records forward from where it is; back if negative.")
@click.option(
    "--topic", "topics", type=TOPIC_PARTITIONS, multiple=True, metavar="TOPIC[:N,…]",
    help="Only this topic, or these partitions of it; without it, all that the group has offsets in.",
)  # fmt: skip
@click.option("--execute/--dry-run", default=False, help="Do it, or only show what would be done (the default).")
@connected
def reset(
    name: str,
    place: Position | None,
    shift: int | None,
    topics: Sequence[tuple[str, list[int] | None]],
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Move a group to another place. It must have no members while this is done."""
    if (place is None) == (shift is None):
        raise click.UsageError("Give one of --to and --shift.")
    with admin(bootstrap) as cluster:
        moves = _moves(cluster, name, topics, place, shift)
        if execute:
            cluster.set_group_offsets(name, {move.at: move.target for move in moves})
    if as_json:
        print_json({"group": name, "executed": execute, "offsets": [move.as_json() for move in moves]})
        return
    rows = [(move.at.topic, move.at.partition, move.current, move.target) for move in moves]
    print_table(["topic", "partition", "from", "to"], rows, empty="The group has no offsets: name a --topic.")
    if rows and not execute:
        note("Nothing was changed: this is what --execute would do.")


@command.command
@click.argument("names", metavar="GROUP…", nargs=-1, required=True, shell_complete=group_names)
@click.option("--yes", is_flag=True, help="Don't ask.")
@connected
def delete(names: Sequence[str], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Delete groups and their offsets."""
    confirm(f"Delete {', '.join(names)} with the offsets?", yes=yes)
    with admin(bootstrap) as cluster:
        for name in names:
            cluster.delete_group(name)
    print_changes({"deleted": list(names)}, as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """One partition's offset, now and then."""

    at: TopicPartition
    current: int | None
    target: int

    def as_json(self) -> dict[str, Any]:
        place = {"topic": self.at.topic, "partition": self.at.partition}
        return {**place, "current_offset": self.current, "target_offset": self.target}


def _moves(
    cluster: Admin,
    group: str,
    topics: Sequence[tuple[str, list[int] | None]],
    place: Position | None,
    shift: int | None,
) -> list[_Move]:
    committed = {at: found.offset for at, found in cluster.group_offsets(group).items()}
    partitions = _chosen(cluster, topics) if topics else sorted(committed)
    if place is not None:
        targets = resolve(cluster, partitions, place)
    else:
        partitions = [at for at in partitions if at in committed]
        targets = within(cluster, {at: committed[at] + (shift or 0) for at in partitions})
    return [_Move(at=at, current=committed.get(at), target=targets[at]) for at in partitions]


def _chosen(cluster: Admin, topics: Sequence[tuple[str, list[int] | None]]) -> list[TopicPartition]:
    found = [partitions_of(cluster, topic, partitions) for topic, partitions in topics]
    return sorted({at for partitions in found for at in partitions})


def _group_json(group: GroupDescription, lags: Sequence[GroupPartitionLag]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": None if group.coordinator is None else group.coordinator.id,
        "lag_records": sum(entry.lag.records or 0 for entry in lags),
        "lag_seconds": max((entry.lag.seconds or 0.0 for entry in lags), default=0.0),
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "partitions": [{"topic": at.topic, "partition": at.partition} for at in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": entry.lag.partition.topic,
                "partition": entry.lag.partition.partition,
                "committed_offset": entry.lag.position,
                "start_offset": entry.lag.start_offset,
                "end_offset": entry.lag.end_offset,
                "lag_records": entry.lag.records,
                "lag_seconds": entry.lag.seconds,
                "member_id": None if entry.member is None else entry.member.member_id,
            }
            for entry in lags
        ],
    }


def _print_group(group: GroupDescription, lags: Sequence[GroupPartitionLag]) -> None:
    print_fields(
        {
            "group": group.group_id,
            "state": group.state,
            "assignor": group.assignor or None,
            "coordinator": group.coordinator,
            "members": len(group.members),
        }
    )
    columns = ["topic", "partition", "committed", "next offset", "lag", "behind", "read by"]
    rows = [
        (
            entry.lag.partition.topic,
            entry.lag.partition.partition,
            entry.lag.position,
            entry.lag.end_offset,
            entry.lag.records,
            None if entry.lag.seconds is None else duration_text(entry.lag.seconds * 1_000),
            None if entry.member is None else f"{entry.member.client_id} ({entry.member.host})",
        )
        for entry in lags
    ]
    print_table(columns, rows, empty="It has no offsets and reads no partition.")

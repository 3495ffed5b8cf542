"""`ottla cluster plan` and `rebalance`: what should be elsewhere, and why; and bringing it there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from ottla.cli.cluster_view import ClusterView, granted
from ottla.cli.failures import CommandError
from ottla.cli.options import connected
from ottla.cli.output import confirm, note, print_changes, print_json, print_table, progress
from ottla.cli.wire import ask, error_text
from ottla.metadata.balancer_plan import Blocked, Move, Plan, Scope, plan_moves
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

LOOK_S = 0.3
"""How often it is looked whether moves are done."""


@click.command
@connected
def plan(bootstrap: str, as_json: bool) -> None:
    """Show which partitions would move, where to and why. Nothing is changed.

    What a broker that joins or leaves makes necessary moves by itself; the rest with `ottla cluster rebalance`.
    """
    planned = plan_moves(ClusterView(bootstrap).image(), scope=Scope.ALL)
    if as_json:
        moves = [_as_json(move) for move in planned.moves]
        print_json({"moves": moves, "blocked": [_blocked_as_json(blocked) for blocked in planned.blocked]})
        return
    print_moves(planned.moves)
    print_blocked(planned.blocked)


@click.command
@click.option(
    "--at-once", type=click.IntRange(1, 1_000), default=10, show_default=True, help="Partitions on their way."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def rebalance(at_once: int, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Carry out what `ottla cluster plan` shows, a few partitions at a time, and give leadership to preferred replicas.

    It can be stopped at any time: what is on its way arrives, the rest stays.
    """
    planned: Plan = plan_moves(ClusterView(bootstrap).image(), scope=Scope.ALL)
    if planned.moves:
        if not as_json:
            print_moves(planned.moves)
        confirm(f"Move {len(planned.moves)} partitions?", yes=yes)
        _carry_out(bootstrap, planned.moves, at_once)
    answer = ask(bootstrap, ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse)
    elected = sum(
        not result.error_code for found in answer.replica_election_results for result in found.partition_result
    )
    print_blocked(planned.blocked)
    print_changes({"moved": len(planned.moves), "elected": elected, "blocked": len(planned.blocked)}, as_json)


def _carry_out(bootstrap: str, moves: Sequence[Move], at_once: int) -> None:
    waiting = list(moves)
    with progress("moving", len(moves), "partitions") as tell:
        while True:
            moving = under_way(bootstrap)
            tell(len(moves) - len(waiting) - min(len(moving), len(moves) - len(waiting)))
            room = at_once - len(moving)
            if room > 0 and waiting:
                start(bootstrap, waiting[:room])
                del waiting[:room]
            elif not moving and not waiting:
                return
            time.sleep(LOOK_S)


def under_way(bootstrap: str) -> list[tuple[str, int]]:
    """The partitions that move."""
    answer = granted(ask(bootstrap, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse))
    return [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]


def start(bootstrap: str, moves: Sequence[Move]) -> None:
    """CommandError if one of them is refused; the others are on their way then."""
    by_topic = sorted(moves, key=lambda move: move.topic)
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=m.partition, replicas=m.replicas) for m in of_topic],
            )
            for name, of_topic in groupby(by_topic, key=lambda move: move.topic)
        ]
    )
    answer = granted(ask(bootstrap, request, AlterPartitionReassignmentsResponse))
    for name, result in _results(answer):
        if result[1]:
            raise CommandError(f"{name}-{result[0]} can't be moved: {error_text(result[1], result[2])}")


def _results(answer: AlterPartitionReassignmentsResponse) -> Iterator[tuple[str, tuple[int, int, str | None]]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield topic.name, (partition.partition_index, partition.error_code, partition.error_message)


def print_moves(moves: Sequence[Move]) -> None:
    rows = [
        (f"{move.topic}-{move.partition}", _ids(move.before), _ids(move.replicas), move.reason)
        for move in sorted(moves, key=lambda move: (move.topic, move.partition))
    ]
    print_table(["partition", "is on", "goes to", "why"], rows, empty="Nothing has to move.")


def print_blocked(blocked: Sequence[Blocked]) -> None:
    for one in blocked:
        note(f"{one.topic}-{one.partition} can't leave broker {one.broker_id}: {one.reason}")


def _ids(brokers: Sequence[int]) -> str:
    return " ".join(map(str, brokers))


def _as_json(move: Move) -> dict[str, object]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "before": list(move.before),
        "replicas": list(move.replicas),
        "reason": move.reason,
    }


def _blocked_as_json(blocked: Blocked) -> dict[str, object]:
    return {
        "topic": blocked.topic,
        "partition": blocked.partition,
        "broker": blocked.broker_id,
        "reason": blocked.reason,
    }

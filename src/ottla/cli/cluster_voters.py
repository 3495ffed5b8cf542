"""`ottla cluster add-voter` and `remove-voter`: who decides about the metadata."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ottla.cli.cluster_view import ClusterView, granted
from ottla.cli.failures import CommandError
from ottla.cli.options import connected
from ottla.cli.output import confirm, print_changes
from ottla.cli.wire import ask
from ottla.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.describe_quorum import ReplicaState, ResponsePartitionData
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

VOTER_TIMEOUT_MS = 10_000


@click.command("add-voter")
@click.argument("node", type=click.IntRange(min=0))
@connected
def add_voter(node: int, bootstrap: str, as_json: bool) -> None:
    """Let a node that follows the metadata log vote on it too.

    Nodes become voters by themselves while there are fewer than cluster.voters_max; this is for more, or others.
    """
    view = ClusterView(bootstrap)
    quorum = view.quorum()
    if _find(quorum.current_voters, node) is not None:
        raise CommandError(f"Node {node} is a voter already")
    observer = _find(quorum.observers, node)
    if observer is None:
        raise CommandError(
            f"Node {node} does not follow the metadata log", hint="`ottla cluster status` shows which nodes do."
        )
    request = AddRaftVoterRequest(
        cluster_id=view.cluster.cluster_id,
        timeout_ms=VOTER_TIMEOUT_MS,
        voter_id=node,
        voter_directory_id=observer.replica_directory_id,
    )
    answer = ask(bootstrap, request, AddRaftVoterResponse)
    if answer.error_code != ErrorCode.DUPLICATE_VOTER:
        granted(answer)
    print_changes({"voters": [*_voters(quorum), node], "added": node}, as_json)


@click.command("remove-voter")
@click.argument("node", type=click.IntRange(min=0))
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def remove_voter(node: int, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Let a node vote no more; it goes on as a broker. For instance one that is gone for good."""
    view = ClusterView(bootstrap)
    quorum = view.quorum()
    voter = _find(quorum.current_voters, node)
    if voter is None:
        raise CommandError(f"Node {node} is no voter", hint="`ottla cluster status` shows who is.")
    confirm(f"Remove node {node} from the voters {' '.join(map(str, _voters(quorum)))}?", yes=yes)
    drop_voter(bootstrap, view, voter)
    print_changes({"voters": [other for other in _voters(quorum) if other != node], "removed": node}, as_json)


def drop_voter(bootstrap: str, view: ClusterView, voter: ReplicaState) -> None:
    """A leader that removes itself may be asked twice: then the second answer is that there is no such voter."""
    request = RemoveRaftVoterRequest(
        cluster_id=view.cluster.cluster_id, voter_id=voter.replica_id, voter_directory_id=voter.replica_directory_id
    )
    answer = ask(bootstrap, request, RemoveRaftVoterResponse)
    if answer.error_code != ErrorCode.VOTER_NOT_FOUND:
        granted(answer)


def _voters(quorum: ResponsePartitionData) -> list[int]:
    return [voter.replica_id for voter in quorum.current_voters]


def _find(replicas: Sequence[ReplicaState], node: int) -> ReplicaState | None:
    return next((replica for replica in replicas if replica.replica_id == node), None)

"""`ottla cluster decommission`: a broker hands over all that it has, and leaves the cluster for good.

The cluster does the work, also when this command is stopped: the broker is marked, the controller moves what it holds,
a few partitions at a time. Only the end needs somebody who stops the process: then its registration is removed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from ottla.cli.cluster_moves import print_blocked
from ottla.cli.cluster_view import ClusterView, granted
from ottla.cli.cluster_voters import drop_voter
from ottla.cli.failures import CommandError
from ottla.cli.options import connected
from ottla.cli.output import confirm, note, print_changes, progress
from ottla.cli.wire import ask, error_text
from ottla.config.cluster import Placement
from ottla.errors import ErrorCode
from ottla.metadata.balancer_plan import Blocked, Scope, plan_moves
from ottla.metadata.image import ResourceType
from ottla.metadata.placement import PLACEMENT
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

SET = 0
LOOK_S = 0.5
BLOCKED_S = 5.0
"""A node that was just restarted, or is slow for a moment, can take partitions again soon."""
UNREGISTER_TRIES = 100


@click.command
@click.argument("node", type=click.IntRange(min=0))
@click.option("--cancel", is_flag=True, help="Take it back: the node may be given partitions again.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the node is empty.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def decommission(node: int, cancel: bool, no_wait: bool, yes: bool, bootstrap: str, as_json: bool) -> None:
    """Move everything from a node to others, let it vote no more, and take it out of the cluster.

    A node that runs is emptied; stop it then, and run the same command once more to remove its registration. One that
    is gone already is replaced and removed in one go.
    """
    broker = _required(ClusterView(bootstrap), node)
    if cancel:
        _mark(bootstrap, node, Placement.OPEN)
        print_changes({"node": node, "state": "open"}, as_json)
        return
    confirm(f"Move everything from node {node} to other nodes, and take it out of the cluster?", yes=yes)
    _mark(bootstrap, node, Placement.DRAINING)
    if no_wait:
        print_changes({"node": node, "state": "draining"}, as_json)
        return
    _wait_until_empty(bootstrap, node)
    _end_votes(bootstrap, node)
    print_changes({"node": node, "state": _part(bootstrap, broker)}, as_json)


def _required(view: ClusterView, node: int) -> DescribeClusterBroker:
    broker = view.broker(node)
    if broker is None:
        raise CommandError(f"There is no node {node}", hint="`ottla cluster status` shows which there are.")
    if not any(other.broker_id != node for other in view.brokers):
        raise CommandError(f"Node {node} is the only one")
    return broker


def _mark(bootstrap: str, node: int, placement: Placement) -> None:
    config = AlterableConfig(name=PLACEMENT, config_operation=SET, value=placement.value)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(node), configs=[config])
    answer = ask(bootstrap, IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse)
    for response in answer.responses:
        if response.error_code:
            raise CommandError(error_text(response.error_code, response.error_message))


def _wait_until_empty(bootstrap: str, node: int) -> None:
    """CommandError if what is left can't go anywhere."""
    view = ClusterView(bootstrap)
    total = view.holds(node)
    had_way_out = time.monotonic()
    with progress(f"emptying node {node}", total, "partitions") as tell:
        while left := view.holds(node):
            tell(max(0, total - left))
            blocked = _without_way_out(view, node)
            if not blocked:
                had_way_out = time.monotonic()
            elif time.monotonic() - had_way_out > BLOCKED_S:
                print_blocked(blocked)
                raise CommandError(
                    f"{len(blocked)} partitions can't leave node {node}",
                    hint="Add a node and it goes on by itself, or take it back with --cancel.",
                )
            time.sleep(LOOK_S)
            view = ClusterView(bootstrap)


def _without_way_out(view: ClusterView, node: int) -> Sequence[Blocked]:
    """What can't leave the node, if nothing moves meanwhile."""
    plan = plan_moves(view.image({node: Placement.DRAINING.value}), scope=Scope.AUTOMATIC)
    blocked = [one for one in plan.blocked if one.broker_id == node]
    return blocked if not plan.moves and not view.reassignments().topics else ()


def _end_votes(bootstrap: str, node: int) -> None:
    view = ClusterView(bootstrap)
    voter = next((one for one in view.quorum().current_voters if one.replica_id == node), None)
    if voter is not None:
        drop_voter(bootstrap, view, voter)


def _part(bootstrap: str, broker: DescribeClusterBroker) -> str:
    """Remove the registration of a broker that is away; one that runs must be stopped first."""
    now = ClusterView(bootstrap).broker(broker.broker_id)
    if now is None:
        return "removed"
    if not now.is_fenced:
        note(f"Node {broker.broker_id} is empty. Stop it, and run this command once more to remove it.")
        return "empty"
    for _ in range(UNREGISTER_TRIES):
        answer = ask(bootstrap, UnregisterBrokerRequest(broker_id=broker.broker_id), UnregisterBrokerResponse)
        if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
            granted(answer)
            break
    return "removed"

"""`ottla cluster`: which nodes there are, how they are, who of them votes and leads, and what should move."""

import click

from ottla.cli.cluster_decommission import decommission
from ottla.cli.cluster_elect import elect
from ottla.cli.cluster_moves import plan, rebalance
from ottla.cli.cluster_status import status
from ottla.cli.cluster_voters import add_voter, remove_voter
from ottla.cli.connection import admin
from ottla.cli.options import connected
from ottla.cli.output import print_fields, print_json, print_table


@click.group
def command() -> None:
    """Nodes, quorum and balance of a cluster."""


for _other in (status, plan, rebalance, decommission, elect, add_voter, remove_voter):
    command.add_command(_other)


@command.command
@connected
def info(bootstrap: str, as_json: bool) -> None:
    """Show the cluster's id, its brokers and its controller."""
    with admin(bootstrap) as cluster:
        described = cluster.describe_cluster()
        topics = cluster.list_topics(include_internal=True)
    controller = None if described.controller is None else described.controller.id
    partitions = sum(topic.partitions for topic in topics)
    if as_json:
        brokers = [
            {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack} for node in described.brokers
        ]
        facts = {"cluster_id": described.cluster_id, "controller": controller, "brokers": brokers}
        print_json({**facts, "topics": len(topics), "partitions": partitions})
        return
    print_fields({"cluster": described.cluster_id, "topics": len(topics), "partitions": partitions})
    rows = [(node.id, node.host, node.port, node.rack, node.id == controller) for node in described.brokers]
    print_table(["broker", "host", "port", "rack", "controller"], rows)

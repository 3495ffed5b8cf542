"""`ottla cluster status`: how the cluster is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.cluster_view import NOBODY, ClusterView, lag
from ottla.cli.failures import CommandError
from ottla.cli.options import connected
from ottla.cli.output import print_fields, print_json, print_table
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker
from ottla.protocol.messages.describe_quorum import ResponsePartitionData

LOAD_S = 1.0
SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@click.command
@click.option("--load", "measures_load", is_flag=True, help="Measure for a second how much each node writes.")
@connected
def status(measures_load: bool, bootstrap: str, as_json: bool) -> None:
    """Show nodes, racks, controller, quorum, what each node carries, and partitions that lack something.

    Exits with 1 if a partition has no leader, or fewer replicas in sync than it should have.
    """
    view = ClusterView(bootstrap)
    facts = _facts(view, view.quorum())
    if measures_load:
        _measure_load(view, facts)
    if as_json:
        print_json(facts)
    else:
        _print_status(facts)
    if facts["partitions"]["under_replicated"] or facts["partitions"]["without_leader"]:
        raise CommandError("Some partitions lack replicas or a leader", hint="`ottla topic describe` shows which.")


def _facts(view: ClusterView, quorum: ResponsePartitionData) -> dict[str, Any]:
    partitions = [partition for _, partition in view.partitions()]
    return {
        "cluster_id": view.cluster.cluster_id,
        "controller": None if view.cluster.controller_id == NOBODY else view.cluster.controller_id,
        "quorum": {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [voter.replica_id for voter in quorum.current_voters],
            "observers": [observer.replica_id for observer in quorum.observers],
        },
        "partitions": {
            "topics": len(view.metadata.topics),
            "partitions": len(partitions),
            "under_replicated": sum(len(p.isr_nodes) < len(p.replica_nodes) for p in partitions),
            "without_leader": sum(p.leader_id == NOBODY for p in partitions),
            "moving": sum(len(topic.partitions) for topic in view.reassignments().topics),
        },
        "nodes": [_node(broker, view, quorum) for broker in view.brokers],
    }


def _node(broker: DescribeClusterBroker, view: ClusterView, quorum: ResponsePartitionData) -> dict[str, Any]:
    disk = view.disk(broker)
    return {
        "id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "state": "fenced" if broker.is_fenced else view.placement(broker) or "in service",
        "role": _role(broker.broker_id, quorum),
        "leads": view.leads(broker.broker_id),
        "replicas": view.holds(broker.broker_id),
        "in_sync": sum(broker.broker_id in partition.isr_nodes for _, partition in view.partitions()),
        "held_bytes": None if disk is None else disk.held_bytes,
        "usable_bytes": None if disk is None else disk.usable_bytes,
        "metadata_lag": _metadata_lag(broker.broker_id, quorum),
    }


def _measure_load(view: ClusterView, facts: dict[str, Any]) -> None:
    """How fast the logs of each node grow: what it leads, and what it copies from others."""
    began = time.monotonic()
    before = {broker.broker_id: view.disk(broker) for broker in view.brokers}
    time.sleep(LOAD_S)
    for broker, node in zip(view.brokers, facts["nodes"], strict=True):
        first, second = before[broker.broker_id], view.disk(broker)
        known = first is not None and second is not None
        grown_bytes = second.held_bytes - first.held_bytes if first is not None and second is not None else 0
        node["written_bytes_per_s"] = round(max(0, grown_bytes) / (time.monotonic() - began)) if known else None


def _role(node_id: int, quorum: ResponsePartitionData) -> str:
    if node_id == quorum.leader_id:
        return "controller"
    return "voter" if any(voter.replica_id == node_id for voter in quorum.current_voters) else "observer"


def _metadata_lag(node_id: int, quorum: ResponsePartitionData) -> int | None:
    known = (*quorum.current_voters, *quorum.observers)
    return next((lag(quorum, replica) for replica in known if replica.replica_id == node_id), None)


def _print_status(facts: dict[str, Any]) -> None:
    quorum, partitions = facts["quorum"], facts["partitions"]
    print_fields(
        {
            "cluster": facts["cluster_id"],
            "controller": facts["controller"],
            "quorum epoch": quorum["epoch"],
            "voters": _ids(quorum["voters"]),
            "observers": _ids(quorum["observers"]),
            "partitions": f"{partitions['partitions']} of {partitions['topics']} topics",
            "under-replicated": partitions["under_replicated"],
            "without leader": partitions["without_leader"],
            "moving": partitions["moving"],
        }
    )
    rows = [
        (
            node["id"],
            f"{node['host']}:{node['port']}",
            node["rack"],
            node["state"],
            node["role"],
            node["leads"],
            node["replicas"],
            node["in_sync"],
            _size(node["held_bytes"]),
            node["metadata_lag"],
            *([_size(node["written_bytes_per_s"])] if "written_bytes_per_s" in node else ()),
        )
        for node in facts["nodes"]
    ]
    columns = ["node", "address", "rack", "state", "role", "leads", "replicas", "in sync", "holds", "metadata lag"]
    if any("written_bytes_per_s" in node for node in facts["nodes"]):
        columns.append("writes/s")
    print_table(columns, rows)


def _ids(ids: Sequence[int]) -> str:
    return " ".join(map(str, sorted(ids))) or "none"


def _size(size_bytes: int | None) -> str | None:
    if size_bytes is None:
        return None
    size, unit = float(size_bytes), 0
    while size >= 1_024 and unit + 1 < len(SIZES):
        size, unit = size / 1_024, unit + 1
    return f"{size:.0f} {SIZES[unit]}" if unit == 0 else f"{size:.1f} {SIZES[unit]}"

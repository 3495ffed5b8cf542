"""`ottla plan`: how large a cluster must be."""

from __future__ import annotations

from dataclasses import asdict

import click

from ottla.cli.options import DURATION, SIZE, json_option
from ottla.cli.output import note, print_fields, print_json, print_table
from ottla.cli.sizing import Machine, Plan, Workload, plan

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
SOURCE = (
    "CPU per batch and byte is from docs/BENCHMARKS.md, measured on two virtual cores; disk and network are as given."
    " Measure your own machine with `ottla bench` before you buy many."
)


@click.command
@click.option(
    "--messages", type=click.IntRange(1), required=True, metavar="N", help="Messages per second, at the peak."
)
@click.option("--size", type=SIZE, required=True, metavar="SIZE", help="Of a message: key, value and headers.")
@click.option("--retention", type=DURATION, required=True, metavar="TIME", help="How long messages are kept, as 7d.")
@click.option(
    "--replication", type=click.IntRange(1, 32), default=3, show_default=True, help="Replicas of every message."
)
@click.option("--readers", type=click.IntRange(0), default=1, show_default=True, help="Groups that read everything.")
@click.option(
    "--batch", type=SIZE, default="16KiB", show_default=True, metavar="SIZE", help="What producers send at once."
)
@click.option(
    "--compression",
    type=click.FloatRange(1.0),
    default=1.0,
    show_default=True,
    metavar="TIMES",
    help="How many times smaller producers make batches.",
)
@click.option("--disk", type=SIZE, default="4TiB", show_default=True, metavar="SIZE", help="Of a broker.")
@click.option(
    "--disk-rate", type=SIZE, default="250MB", show_default=True, metavar="SIZE", help="It writes this per second."
)
@click.option(
    "--network", type=SIZE, default="1250MB", show_default=True, metavar="SIZE", help="The same of its network."
)
@click.option(
    "--load",
    type=click.FloatRange(0.05, 1.0),
    default=0.5,
    show_default=True,
    help="Share of a broker that is used at the peak.",
)
@json_option
def command(
    messages: int,
    size: int,
    retention: int,
    replication: int,
    readers: int,
    batch: int,
    compression: float,
    disk: int,
    disk_rate: int,
    network: int,
    load: float,
    as_json: bool,
) -> None:
    """Say how many brokers, partitions, disks and how much network a workload needs, and what decides it.

    Talks to no broker. One broker more than needed is planned, so that one can be lost.
    """
    wanted = Workload(
        messages_per_s=messages,
        message_bytes=size,
        retention_ms=retention,
        replicas=replication,
        readers=readers,
        batch_bytes=batch,
        compression=compression,
    )
    machine = Machine(disk_bytes=disk, disk_bytes_per_s=disk_rate, network_bytes_per_s=network, used_share_max=load)
    found = plan(wanted, machine)
    if as_json:
        print_json({**asdict(found), "decided_by": found.decided_by})
    else:
        _show(found)


def _show(found: Plan) -> None:
    written = found.written_bytes_per_s
    print_fields(
        {
            "Brokers": f"{found.brokers} ({found.decided_by} decides)",
            "Partitions": found.partitions,
            "Storage": f"{shown(found.stored_bytes)}, {shown(found.stored_bytes / found.brokers)} a broker",
            "Disk writes": f"{shown(written)}/s, {shown(written / found.brokers)}/s a broker",
            "Network": f"{shown(found.in_bytes_per_s)}/s in, {shown(found.out_bytes_per_s)}/s out",
            "CPU": f"{found.cores:.1f} cores, {found.cores / found.brokers:.2f} a broker",
            "Memory": f"{shown(found.memory_bytes_per_broker)} a broker, for the process and a minute of page cache",
        }
    )
    click.echo()
    print_table(
        ["for", "needs", "a broker has", "brokers"],
        [
            [need.what, _figure(need.total, need.what), _figure(need.per_broker, need.what), need.brokers]
            for need in found.needs
        ],
    )
    for remark in (*found.remarks, SOURCE):
        note(remark)


def _figure(number: float, what: str) -> str:
    return shown(number) if "bytes" in what else f"{number:.2f}"


def shown(size_bytes: float) -> str:
    for unit in UNITS:
        if size_bytes < 1000 or unit == UNITS[-1]:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    raise AssertionError("the last unit takes all")

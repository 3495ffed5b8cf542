"""The command line of `ottla bench`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import click

from ottla.cli.bench.broker import find_broker
from ottla.cli.bench.runs import Measured, Plan, measure_consume, measure_latency, measure_produce
from ottla.cli.connection import admin
from ottla.cli.options import SIZE, connected
from ottla.cli.output import note, print_json, print_table, progress
from ottla.cli.produce import ACKS
from ottla.client.admin import Admin
from ottla.client.cluster import LATEST
from ottla.client.errors import ClientError
from ottla.client.settings import COMPRESSIONS

MODES = ("produce", "consume", "latency")
COLUMNS = {
    "mode": "mode",
    "records/s": "records_per_second",
    "MB/s": "mb_per_second",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "p99.9 ms": "p99_9_ms",
    "broker CPU us/record": "broker_cpu_us_per_record",
    "broker RSS MB": "broker_rss_mb",
}
"""Heading → field of the result."""


@click.command
@click.argument("modes", metavar="[produce|consume|latency]…", type=click.Choice(MODES), nargs=-1)
@click.option("--records", type=click.IntRange(min=1), default=500_000, show_default=True, help="To write and read.")
@click.option("--size", type=SIZE, default="100", show_default=True, help="Bytes of a record's value.")
@click.option("--partitions", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True, help="Clients at work at once.")
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="none", show_default=True)
@click.option("--batch-size", type=SIZE, default="1000000", show_default=True, help="Bytes of a batch.")
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5, show_default=True, help="Time for it to fill.")
@click.option("--rate", type=click.FloatRange(min=1), default=1_000, show_default=True, help="latency: records/s.")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10, show_default=True, help="latency: how long.")
@click.option("--broker-pid", type=int, metavar="PID", help="Whose CPU and memory to measure.")
@click.option("--data-dir", metavar="DIR", default="data", show_default=True, envvar="OTTLA_DATA_DIR",
              help="Where to look for a local node's pid.")  # fmt: skip
@connected
def command(modes: Sequence[str], seconds: float, rate: float, data_dir: str, as_json: bool, **given: Any) -> None:
    """Measure a running node, all modes if none is named, on a topic that is deleted afterwards.

    \b
      produce  as fast as it goes; latency from the call to the acknowledgement
      consume  as fast as it goes
      latency  end to end, at a steady rate
    """
    bootstrap: str = given["bootstrap"]
    plan = Plan(
        bootstrap=bootstrap,
        topic=f"ottla-bench-{os.getpid()}",
        partitions=given["partitions"],
        records=given["records"],
        size_bytes=given["size"],
        processes=given["processes"],
        acks=ACKS[given["acks"]],
        compression=given["compression"],
        batch_bytes=given["batch_size"],
        linger_ms=given["linger_ms"],
        rate=rate,
        broker_pid=find_broker(bootstrap, data_dir, given["broker_pid"]),
    )
    with admin(bootstrap) as cluster:
        results = [_measure(cluster, mode, plan, seconds).as_json() for mode in _in_order(modes)]
    if as_json:
        print_json({"settings": _settings_json(plan), "results": results})
        return
    print_table(list(COLUMNS), [[result[name] for name in COLUMNS.values()] for result in results])
    if plan.broker_pid is None:
        note("CPU and memory of the broker are not known: --broker-pid names its process.")


def _in_order(modes: Sequence[str]) -> list[str]:
    return [mode for mode in MODES if mode in modes] if modes else list(MODES)


def _measure(cluster: Admin, mode: str, plan: Plan, seconds: float) -> Measured:
    own = replace(plan, topic=f"{plan.topic}-{mode}")
    with _topic(cluster, own):
        if mode == "produce":
            with progress("produce", own.records) as show:
                return measure_produce(own, show)
        if mode == "latency":
            timed = replace(own, records=max(int(own.rate * seconds), 1))
            with progress("latency", timed.records) as show:
                return measure_latency(timed, show)
        with progress("filling", own.records) as show:
            measure_produce(replace(own, broker_pid=None), show)
        ends = {at.partition: found.offset for at, found in cluster.topic_offsets(own.topic, LATEST).items()}
        with progress("consume", own.records) as show:
            return measure_consume(own, ends, show)


@contextmanager
def _topic(cluster: Admin, plan: Plan) -> Iterator[None]:
    try:
        cluster.create_topic(plan.topic, partitions=plan.partitions)
    except KeyboardInterrupt:  # while the broker makes it, or before it was asked to
        with suppress(ClientError):
            cluster.delete_topic(plan.topic)
        raise
    try:
        yield
    finally:
        cluster.delete_topic(plan.topic)


def _settings_json(plan: Plan) -> dict[str, Any]:
    return {
        "records": plan.records,
        "size_bytes": plan.size_bytes,
        "partitions": plan.partitions,
        "processes": plan.processes,
        "acks": next(name for name, mode in ACKS.items() if mode is plan.acks),
        "compression": plan.compression,
        "batch_bytes": plan.batch_bytes,
        "linger_ms": plan.linger_ms,
        "rate": plan.rate,
        "broker_pid": plan.broker_pid,
    }

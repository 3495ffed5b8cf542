"""`ottla start`: run a node until it is told to stop.

A node must answer within a quarter of a second of its start, interpreter included, so this module imports the config
and then the runtime, and neither a client nor anything that draws.
"""

import gc
import os
from typing import TYPE_CHECKING

import click

from ottla.cli.options import PAIR
from ottla.cli.stdin_end import until_stdin_ends_option
from ottla.config import load_config
from ottla.config.http import HTTP_PORT_DEFAULT
from ottla.config.seeds import CLUSTER_PORT_DEFAULT
from ottla.observability.logs import configure_logging

if TYPE_CHECKING:
    from ottla.runtime.main import Companion
    from ottla.runtime.node import Node


@click.command
@click.option("--node-id", metavar="N", help="The node's number in its cluster (1).")
@click.option("--port", metavar="PORT", help="TCP port for the Kafka protocol (9092); 0 takes a free one.")
@click.option("--address", metavar="HOST", help="Where to listen (127.0.0.1); 0.0.0.0 for every interface.")
@click.option("--advertised-address", metavar="HOST", help="The host that clients are told to connect to.")
@click.option(
    "--cluster-port",
    metavar="PORT",
    help="TCP and UDP port for other nodes (7946 if it is free); 0 takes a free one, none takes no part.",
)
@click.option(
    "--seeds",
    metavar="HOST:PORT,…",
    help="Cluster addresses of nodes to join. Nodes first started with the same seeds found a cluster together.",
)
@click.option(
    "--http-port", metavar="PORT", help="TCP port for the HTTP API (8080, or the next free one); 0 takes any."
)
@click.option("--no-http", is_flag=True, help="Serve no HTTP API.")
@click.option("--data-dir", metavar="DIR", help="Everything the node keeps (./data).")
@click.option("--config", metavar="FILE", envvar="OTTLA_CONFIG", help="YAML file; config/broker.yaml explains it all.")
@click.option("--segment-size", metavar="SIZE", help="A segment file is closed at this size (1GiB).")
@click.option("--wal-sync-interval", metavar="TIME", help="0: sync before every answer; else sync that often.")
@click.option("--durability", metavar="MODE", help="commit (an answer waits for the disk), interval or os.")
@click.option("--rack", metavar="NAME", help="Where the node stands: replicas go to different racks.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
@click.option("--log-format", metavar="FORMAT", help="text or json.")
@click.option("--set", "settings", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Any setting, by its name.")
@until_stdin_ends_option
def command(config: str | None, no_http: bool, settings: tuple[tuple[str, str], ...], **flags: str | None) -> None:
    """Run a node in the foreground. SIGTERM or Ctrl-C stops it cleanly.

    Settings come from the defaults, the file given with --config, OTTLA_… environment variables (OTTLA_PORT,
    OTTLA_JOURNAL_DURABILITY) and the flags, each overruling the ones before it.
    """
    gc.disable()  # what is loaded now stays: going over it again and again is a tenth of a start
    broker_config = load_config(config, os.environ, _overrides(flags, settings))
    configure_logging(level=broker_config.logging.level, log_format=broker_config.logging.format)
    from ottla.runtime.main import run  # only now: a setting that is wrong is told before anything is loaded

    run(
        broker_config,
        cluster_port_if_free=CLUSTER_PORT_DEFAULT if flags["cluster_port"] is None else None,
        beside=None if no_http else _serve_http,
    )


def _serve_http(node: "Node") -> "Companion | None":
    from ottla.http.serving import serve_node  # only now: nothing of it is needed for the Kafka port

    return serve_node(node, port_if_free=HTTP_PORT_DEFAULT)


def _overrides(flags: dict[str, str | None], settings: tuple[tuple[str, str], ...]) -> dict[str, object]:
    given: dict[str, object] = {name: value for name, value in flags.items() if value is not None}
    for name, value in settings:
        if name in given and given[name] != value:
            raise click.UsageError(f"{name} is given twice: {given[name]} and {value}.")
        given[name] = value
    return given

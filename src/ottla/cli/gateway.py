"""`ottla gateway`: the HTTP API and the console in front of any Kafka cluster."""

import click

from ottla.cli.connection import addresses
from ottla.cli.console import CONSOLE_PATH, has_console, new_console
from ottla.cli.options import bootstrap_option, listening_options
from ottla.config import HttpConfig
from ottla.config.http import HTTP_PORT_DEFAULT
from ottla.observability.logs import configure_logging


@click.command
@bootstrap_option
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=HTTP_PORT_DEFAULT,
    show_default=True,
    envvar="OTTLA_HTTP_PORT",
    help="Where to serve; 0 takes a free port.",
)
@listening_options
def command(bootstrap: str, http_port: int, address: str | None, log_level: str) -> None:
    """Serve the HTTP API for a cluster that runs elsewhere: Ottla's, or Apache Kafka's from version 3.0 on.

    The web console is at /console, if `ottla[console]` is installed. SIGTERM or Ctrl-C stops it.
    """
    places = addresses(bootstrap)
    configure_logging(level=log_level, log_format="text")
    from ottla.http.gateway import run  # only now: what is wrong is told before anything is loaded

    front = new_console(bootstrap, CONSOLE_PATH, address) if has_console() else None
    run(places, HttpConfig(address=address), [http_port], front=front)

"""`ottla console`: web pages that show a cluster."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import addresses
from ottla.cli.failures import CommandError, ExitCode
from ottla.cli.options import bootstrap_option, listening_options
from ottla.config import HttpConfig
from ottla.observability.logs import configure_logging

if TYPE_CHECKING:
    from ottla.console.app import Console

PORT_DEFAULT = 8090
PORTS_TRIED = 10
CONSOLE_PATH = "/console"
"""Where the gateway has it; a console alone is at the root."""
READY = "the console of process {pid} is at %s"
"""`ottla up` waits for this line."""


@click.command
@bootstrap_option
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    envvar="OTTLA_CONSOLE_PORT",
    help=f"Where to serve ({PORT_DEFAULT}, or the next free one); 0 takes any.",
)
@listening_options
def command(bootstrap: str, port: int | None, address: str | None, log_level: str) -> None:
    """Serve web pages that show a cluster: Ottla's, or Apache Kafka's from version 3.0 on.

    Whoever can open them can read and write messages: there are no users, so only this machine can connect unless
    --address says otherwise. SIGTERM or Ctrl-C stops it.
    """
    places = addresses(bootstrap)
    require_console()
    configure_logging(level=log_level, log_format="text")
    from ottla.http.gateway import run  # only now: what is wrong is told before anything is loaded

    ports = [port] if port is not None else range(PORT_DEFAULT, PORT_DEFAULT + PORTS_TRIED)
    run(
        places,
        HttpConfig(address=address),
        ports,
        front=new_console(bootstrap, "/", address),
        says=READY.format(pid=os.getpid()),
    )


def new_console(bootstrap: str, path: str, address: str | None) -> Console:
    from ottla.console.app import Console

    return Console(bootstrap, path=path, address=address)


def has_console() -> bool:
    return find_spec("nicegui") is not None


def require_console() -> None:
    if not has_console():
        raise CommandError(
            "The console is not installed", hint="pip install 'ottla[console]'.", exit_code=ExitCode.USAGE
        )

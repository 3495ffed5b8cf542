"""`ottla up`: a cluster on this machine, one process per node, for as long as the command runs."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ottla.cli.console import require_console
from ottla.cli.failures import CommandError, ExitCode
from ottla.cli.options import PAIR
from ottla.cli.output import note
from ottla.cli.stdin_end import FLAG as UNTIL_STDIN_ENDS
from ottla.cli.stdin_end import until_stdin_ends_option
from ottla.cli.supervisor import Child, Program, Supervisor
from ottla.config import load_config
from ottla.config.seeds import CLUSTER_PORT_DEFAULT
from ottla.runtime.directory_lock import lock_owner

NODES_MAX = 100
REPLICAS_MAX = 3
META_PROPERTIES = "meta.properties"
CONSOLE = "console"


@click.command
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), default=3, show_default=True, help="How many nodes.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=9092,
    show_default=True,
    envvar="OTTLA_PORT",
    help="Of the first node; the others have the ports after it.",
)
@click.option(
    "--cluster-port",
    type=click.IntRange(1, 65_535),
    default=CLUSTER_PORT_DEFAULT,
    show_default=True,
    envvar="OTTLA_CLUSTER_PORT",
    help="The same, for what nodes say to each other.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    envvar="OTTLA_DATA_DIR",
    help="Each node has a directory and a log file in it.",
)
@click.option("--console", "with_console", is_flag=True, help="Serve the web console, too (`ottla console`).")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
@click.option(
    "--set", "settings", type=PAIR, multiple=True, metavar="NAME=VALUE", help="Any setting, by its name, for all nodes."
)
@until_stdin_ends_option
def command(
    nodes: int,
    port: int,
    cluster_port: int,
    data_dir: Path,
    with_console: bool,
    log_level: str | None,
    settings: Sequence[tuple[str, str]],
) -> None:
    """Run a cluster on this machine, one process per node. Ctrl-C or SIGTERM stops it cleanly.

    Each node prints a line when it serves. A node that dies is started again. Topics get three replicas by default, of
    which two must have a record before it is acknowledged with acks=all (fewer in a smaller cluster). OTTLA_…
    environment variables are settings of all nodes, as for `ottla start`.
    """
    _require_room(port, cluster_port, nodes)
    _require_fitting(data_dir, nodes)
    if with_console:
        require_console()
    common = [*_replicas(nodes, settings), *settings]
    load_config(None, os.environ, dict(common))
    flags = [flag for name, value in common for flag in ("--set", f"{name}={value}")]
    if log_level is not None:
        flags += ["--log-level", log_level]
    programs = [_program(number, nodes, port, cluster_port, data_dir, flags) for number in range(1, nodes + 1)]
    if with_console:
        programs.append(_console(nodes, port, data_dir))
    failed = asyncio.run(Supervisor(programs, note).run(_ready))
    if failed is not None:
        raise _failure(failed)


def _require_room(port: int, cluster_port: int, nodes: int) -> None:
    for first in (port, cluster_port):
        if first + nodes - 1 > 65_535:
            raise click.UsageError(f"{nodes} ports from {first} on are more than there are.")
    if abs(port - cluster_port) < nodes:
        raise click.UsageError(f"--port {port} and --cluster-port {cluster_port} are too near to each other.")


def _require_fitting(data_dir: Path, nodes: int) -> None:
    if (data_dir / META_PROPERTIES).exists():
        raise CommandError(
            f"{data_dir} is the directory of a single node",
            hint="Run that with `ottla start`, or name another --data-dir.",
            exit_code=ExitCode.USAGE,
        )
    held = [
        number
        for number in range(nodes + 1, NODES_MAX + 1)
        if (_directory(data_dir, number) / META_PROPERTIES).exists()
    ]
    if held:
        raise CommandError(
            f"{data_dir} is of a cluster with node {held[-1]}, which could not work without it",
            hint=f"Start it with --nodes {held[-1]}, or name another --data-dir.",
            exit_code=ExitCode.USAGE,
        )


def _replicas(nodes: int, settings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    given = {name for name, _ in settings}
    replicas = min(nodes, REPLICAS_MAX)
    wanted = {"default_replication_factor": replicas, "log.min_insync_replicas": max(1, replicas - 1)}
    return [(name, str(value)) for name, value in wanted.items() if name not in given]


def _directory(data_dir: Path, number: int) -> Path:
    return data_dir / f"node-{number}"


def _program(number: int, nodes: int, port: int, cluster_port: int, data_dir: Path, flags: Sequence[str]) -> Program:
    seeds = ",".join(f"127.0.0.1:{cluster_port + at}" for at in range(nodes))
    directory = str(_directory(data_dir, number))
    return Program(
        name=f"node {number}",
        command=[
            sys.executable, "-m", "ottla", "start",
            "--node-id", str(number),
            "--port", str(port + number - 1),
            "--cluster-port", str(cluster_port + number - 1),
            "--seeds", seeds,
            "--data-dir", directory,
            UNTIL_STDIN_ENDS,
            *flags,
        ],
        log_file=data_dir / f"node-{number}.log",
        is_ready=lambda pid: _address(directory, pid) != "",
    )  # fmt: skip


def _console(nodes: int, port: int, data_dir: Path) -> Program:
    bootstrap = ",".join(f"127.0.0.1:{port + at}" for at in range(nodes))
    log_file = data_dir / f"{CONSOLE}.log"
    return Program(
        name=CONSOLE,
        command=[sys.executable, "-m", "ottla", "console", "--bootstrap", bootstrap, UNTIL_STDIN_ENDS],
        log_file=log_file,
        is_ready=lambda pid: bool(_console_address(log_file, pid)),
    )


def _console_address(log_file: Path, pid: int) -> str:
    """Where the process with this id serves, as it says in its log; empty as long as it does not."""
    said = re.findall(rf"the console of process {pid} is at (\S+)", log_file.read_text(errors="replace"))
    return said[-1] if said else ""


def _address(directory: str, pid: int) -> str:
    """Where the node answers; empty as long as it does not."""
    owner = lock_owner(directory)
    return owner.address if owner is not None and owner.pid == pid else ""


def _ready(child: Child) -> None:
    if child.program.name == CONSOLE:
        log_file = child.program.log_file
        click.echo(f"{CONSOLE}  {_console_address(log_file, child.pid or 0)}  pid {child.pid}  log {log_file}")
        return
    directory = child.program.log_file.with_suffix("")
    address = _address(str(directory), child.pid or 0)
    click.echo(f"{child.program.name}  {address}  pid {child.pid}  data {directory}  log {child.program.log_file}")


def _failure(child: Child) -> CommandError:
    code = child.exit_code if child.exit_code is not None else ExitCode.FAILED
    exit_code = ExitCode(code) if code in ExitCode._value2member_map_ else ExitCode.FAILED
    said = child.last_words().removeprefix("ottla: ")
    return CommandError(f"{child.program.name} could not be started: {said}", exit_code=exit_code)

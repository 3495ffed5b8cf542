"""The entry point: which commands there are, and what happens when one ends badly.

Commands are loaded by name, since importing all of them takes longer than starting a node. Their one-line help stands
here, so that `ottla --help` loads none of them.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from ottla.cli.failures import MEANINGS, CommandError, ExitCode, explain, report

COMMANDS = {
    "start": "Run a node.",
    "up": "Run a cluster on this machine.",
    "topic": "List, create, describe, change and delete topics.",
    "produce": "Write records from standard input or files.",
    "consume": "Read records, and follow what arrives.",
    "group": "Consumer groups: members, lag, offsets.",
    "config": "Settings of topics and brokers.",
    "quota": "Limits of bytes per second for clients.",
    "txn": "Transactions that are open, and those that hang.",
    "dlq": "Dead letters: records that a stream could not process.",
    "cluster": "Nodes, quorum and balance of a cluster.",
    "console": "Serve web pages that show any Kafka cluster.",
    "gateway": "Serve the HTTP API and the console for any Kafka cluster.",
    "pipeline": "Run the ingestion pipeline on Spark, and check its results.",
    "ingest": "Make up events and send them to a topic.",
    "demo": "Three nodes, events and the pipeline, live.",
    "plan": "How many brokers a workload needs, with what disks and network.",
    "log": "Read and check the files of a data directory.",
    "bench": "Measure throughput and latency of a running node.",
    "completion": "Print the script that completes commands in a shell.",
    "version": "Print the version.",
}
"""Name → what it does. The command `name` is the object `command` of the module `ottla.cli.name`."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # what modules define stays: going over it again and again is a tenth of the time to load them
        try:
            command: click.Command = import_module(f"ottla.cli.{cmd_name}").command
        finally:
            gc.enable()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """click would answer a broken pipe with exit code 1, which means something else here."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _end_silently()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the table: importing every command would make the shell wait."""
        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in MEANINGS.items()])
        formatter.write_paragraph()
        formatter.write_text("Every command has its own --help. A quick look: `ottla start` in one terminal, then")
        with formatter.indentation():
            formatter.write_text("echo hello | ottla produce greetings")
            formatter.write_text("ottla consume greetings --from beginning")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def root() -> None:
    """Ottla: a message queue that speaks the Kafka protocol.

    Commands talk to a broker at --bootstrap (default 127.0.0.1:9092, or OTTLA_BOOTSTRAP), Ottla's or any Kafka's.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code of the process."""
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _end_silently()
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return root.main(arguments, prog_name="ottla", standalone_mode=False) or ExitCode.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.OK
    except click.ClickException as error:
        return report(_usage_failure(error))
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except Exception as error:
        failure = explain(error)
        if failure is None:
            raise
        return report(failure)


def _usage_failure(error: click.ClickException) -> CommandError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "ottla"
    return CommandError(error.format_message(), hint=f"See `{command} --help`.", exit_code=ExitCode.USAGE)


def _end_silently() -> int:
    """`| head` has seen enough. Python would complain when it flushes at exit, so give it somewhere to flush to."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE

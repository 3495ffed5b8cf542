"""docs/CLI.md, made from the commands themselves: `python -m ottla.cli.reference > docs/CLI.md`. A test compares."""

import inspect
import sys
from collections.abc import Iterator

import click

from ottla.cli.failures import MEANINGS
from ottla.cli.main import COMMANDS, root

INTRODUCTION = """\
# The `ottla` command

Made from the commands themselves by `python -m ottla.cli.reference`; `ottla COMMAND --help` says the same.

**Everywhere.** `--bootstrap HOST:PORT[,…]` names the broker (environment: `OTTLA_BOOTSTRAP`; default
`127.0.0.1:9092`); it may be any that speaks the Kafka protocol. `--json` prints machine-readable results on standard
output and nothing else there: one document, or one object a line where results are a stream (`consume`, `log dump`).
Remarks, progress bars and errors go to standard error; an error is one sentence with a hint. Tables are drawn on a
terminal and plain in a pipe.

**Places in a log** (`--from`, `--until`, `--to`, `--before`): `beginning`, `end`, an offset (`42`), the last N records
of each partition (`-10`), a time ago (`-5m`, `-36h`), a time (`2026-01-31T12:00:00Z`; local without a zone),
milliseconds since 1970 (`@1769860800000`), `now`.

**Sizes and durations** have units: `64MiB`, `500KB`; `250ms`, `30s`, `5m`, `12h`, `7d`.

**Records as JSON**: `consume --json` prints and `produce --json` reads one object a line with `key`, `value`,
`headers`, `partition`, `timestamp_ms` (and `topic` and `offset`, when printed). What is not UTF-8 comes as
`key_base64`, `value_base64`. So `ottla consume a --json | ottla produce b --json` copies a topic.

**Completion**: `ottla completion bash|zsh|fish` prints the script; names of topics and groups are completed too.
"""
EVERYWHERE = ("bootstrap", "as_json")
"""Parameters that are explained once for all commands."""


def reference() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_exit_codes(), *_commands()]).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| Code | Meaning |\n|---|---|"
    for code, meaning in MEANINGS.items():
        yield f"| {int(code)} | {meaning} |"
    yield ""


def _commands() -> Iterator[str]:
    context = click.Context(root, info_name="ottla")
    for name in COMMANDS:
        command = root.get_command(context, name)
        if command is not None:
            yield from _section(command, f"ottla {name}", depth=2)


def _section(command: click.Command, path: str, depth: int) -> Iterator[str]:
    arguments = [_argument(parameter) for parameter in command.params if isinstance(parameter, click.Argument)]
    yield f"{'#' * depth} {' '.join([path, *arguments])}\n"
    yield from _help(command)
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    own = [option for option in options if option.name not in EVERYWHERE]
    if own:
        yield "| Option | |\n|---|---|"
        yield from (f"| `{_option(option)}` | {_explained(option)} |" for option in own)
        yield ""
    if isinstance(command, click.Group):
        for name, child in sorted(command.commands.items()):
            yield from _section(child, f"{path} {name}", depth + 1)


def _help(command: click.Command) -> Iterator[str]:
    """Paragraphs as they are; those that click is told not to wrap are examples."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f"```text\n{inspect.cleandoc(paragraph.removeprefix(chr(8)))}\n```\n"
        else:
            yield f"{paragraph}\n"


def _argument(argument: click.Argument) -> str:
    if argument.metavar:
        return argument.metavar
    return "|".join(argument.type.choices) if isinstance(argument.type, click.Choice) else str(argument.name).upper()


def _option(option: click.Option) -> str:
    names = ", ".join(option.opts + option.secondary_opts)
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return "N" if isinstance(option.type, click.types.IntRange | click.types.FloatRange) else option.type.name.upper()


def _explained(option: click.Option) -> str:
    default = f" Default: {option.default}." if option.show_default else ""
    return ((option.help or "") + default).replace("|", "\\|").strip()


if __name__ == "__main__":
    sys.stdout.write(reference())

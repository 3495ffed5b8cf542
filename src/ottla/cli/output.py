"""Results on standard output: a table for people, JSON for machines. Remarks and progress on standard error.

Rich draws tables and progress bars, and is loaded only when a terminal is there to see them: in a pipe the same table
comes as plain aligned columns.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from ottla.cli.failures import CommandError
from ottla.observability.logs import printable

Row = Sequence[object]


def print_json(value: object) -> None:
    """One JSON document; indented for a terminal, on one line otherwise so that line-based tools can take it."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, indent=indent, default=str))


def print_table(columns: Sequence[str], rows: Sequence[Row], *, title: str = "", empty: str = "Nothing.") -> None:
    if not rows:
        note(empty)
        return
    texts = [[_cell(value) for value in row] for row in rows]
    numeric = [_is_numeric([row[at] for row in rows]) for at in range(len(columns))]
    draw = _draw_rich if sys.stdout.isatty() else _draw_plain
    draw(columns, texts, numeric, title)


def print_fields(fields: Mapping[str, object]) -> None:
    """A few facts about one thing, one a line."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        click.echo(f"{name:<{width}}  {_cell(value)}")


def print_changes(changes: Mapping[str, object], as_json: bool) -> None:
    """What a command did, as it asked for it: a cluster may take a moment to show a change to those who read."""
    if as_json:
        print_json(changes)
    else:
        print_fields({name: _listed(value) for name, value in changes.items()})


def note(text: str) -> None:
    """A remark for a person: never among the results."""
    click.echo(printable(text), err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that can't be undone, if there is a person to ask. CommandError if the answer is no."""
    if not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        raise CommandError("Nothing was changed")


@contextmanager
def progress(description: str, total: int | None, unit: str = "records") -> Iterator[Callable[[int], None]]:
    """A bar on the terminal (a counter where there is no total); the block calls what it gets with what is done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True, refresh_per_second=8)
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


def _listed(value: object) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_cell(inner)}" for name, inner in value.items()) or None
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or None
    return value


def _is_numeric(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return printable(str(value))


def _draw_plain(columns: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str) -> None:
    lines = [[name.upper() for name in columns], *texts]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _draw_rich(columns: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name, right in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for line in texts:
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)

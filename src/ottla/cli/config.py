"""`ottla config`: settings of topics and brokers that can be read, and some changed, while they run."""

from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.connection import admin
from ottla.cli.failures import CommandError
from ottla.cli.options import PAIR, connected
from ottla.cli.output import print_changes, print_json, print_table
from ottla.client.admin import Admin
from ottla.client.cluster import ConfigEntry, ResourceType

KIND = click.Choice(["topic", "broker"])


@click.group
def command() -> None:
    """Settings of topics and brokers.

    A broker is named by its id, see `ottla cluster info`.
    """


@command.command("list")
@click.argument("kind", type=KIND)
@click.argument("name")
@click.option("--changed", is_flag=True, help="Only those that differ from the default.")
@connected
def list_configs(kind: str, name: str, changed: bool, bootstrap: str, as_json: bool) -> None:
    """List all settings of a topic or broker."""
    with admin(bootstrap) as cluster:
        entries = cluster.describe_config(ResourceType(kind), name).values()
    _print([entry for entry in entries if not (changed and entry.is_default)], as_json)


@command.command("get")
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("settings", metavar="SETTING…", nargs=-1, required=True)
@connected
def get_configs(kind: str, name: str, settings: Sequence[str], bootstrap: str, as_json: bool) -> None:
    """Print the value of settings: of one alone, nothing but its value."""
    with admin(bootstrap) as cluster:
        entries = _named(cluster, ResourceType(kind), name, settings)
    if len(entries) == 1 and not as_json:
        click.echo(entries[0].value or "")
    else:
        _print(entries, as_json)


@command.command("set")
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("pairs", metavar="SETTING=VALUE…", type=PAIR, nargs=-1, required=True)
@connected
def set_configs(kind: str, name: str, pairs: Sequence[tuple[str, str]], bootstrap: str, as_json: bool) -> None:
    """Change settings of a topic or broker."""
    _alter(bootstrap, ResourceType(kind), name, dict(pairs), as_json)


@command.command("unset")
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("settings", metavar="SETTING…", nargs=-1, required=True)
@connected
def unset_configs(kind: str, name: str, settings: Sequence[str], bootstrap: str, as_json: bool) -> None:
    """Put settings back to their default."""
    _alter(bootstrap, ResourceType(kind), name, dict.fromkeys(settings), as_json)


def _alter(bootstrap: str, kind: ResourceType, name: str, values: dict[str, str | None], as_json: bool) -> None:
    with admin(bootstrap) as cluster:
        _named(cluster, kind, name, list(values))  # a broker takes names that mean nothing to it without a word
        cluster.alter_config(kind, name, values)
    to_set = {setting: value for setting, value in values.items() if value is not None}
    to_unset = [setting for setting, value in values.items() if value is None]
    print_changes({kind.value: name, **({"set": to_set} if to_set else {"unset": to_unset})}, as_json)


def _named(cluster: Admin, kind: ResourceType, name: str, settings: Sequence[str]) -> list[ConfigEntry]:
    known = cluster.describe_config(kind, name)
    for setting in settings:
        if setting not in known:
            raise CommandError(
                f"{kind.value} {name} has no setting {setting!r}",
                hint=f"`ottla config list {kind.value} {name}` shows them all.",
            )
    return [known[setting] for setting in settings]


def _print(entries: Sequence[ConfigEntry], as_json: bool) -> None:
    if as_json:
        print_json([_entry_json(entry) for entry in entries])
        return
    rows = [(entry.name, "(secret)" if entry.sensitive else entry.value, entry.source.value) for entry in entries]
    print_table(["setting", "value", "from"], rows, empty="None differs from the default.")


def _entry_json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.value,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }

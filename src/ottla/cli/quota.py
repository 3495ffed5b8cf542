"""`ottla quota`: how many bytes a second a client may write and read."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ottla.cli.failures import CommandError
from ottla.cli.options import PAIR, connected
from ottla.cli.output import print_changes, print_json, print_table
from ottla.cli.wire import ask, error_text
from ottla.config.units import parse_quantity
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Command = TypeVar("Command", bound=Callable[..., Any])
Entity = dict[str, str | None]
"""Whom a quota is for: entity type → name, None for all who have none of their own."""

EXACT, DEFAULT = 0, 1
"""How a filter matches a name."""


@click.group
def command() -> None:
    """Limits of bytes per second for clients.

    A quota is for a client id, a user, or both; or for all that have no quota of their own (--default-client,
    --default-user). There are producer_byte_rate and consumer_byte_rate, per broker.
    """


def _entity_options(function: Command) -> Command:
    for option in (
        click.option("--default-user", is_flag=True, help="All users without a quota of their own."),
        click.option("--user", metavar="NAME", help="This user."),
        click.option("--default-client", is_flag=True, help="All client ids without a quota of their own."),
        click.option("--client", metavar="ID", help="This client id."),
    ):
        function = option(function)
    return function


@command.command("get")
@_entity_options
@connected
def get_quotas(bootstrap: str, as_json: bool, **whom: Any) -> None:
    """Show quotas: all of them, or those of one client or user."""
    entity = _entity(**whom)
    _print(_describe(bootstrap, entity), as_json)


@command.command("set")
@click.argument("quotas", metavar="QUOTA=VALUE…", type=PAIR, nargs=-1, required=True)
@_entity_options
@connected
def set_quotas(quotas: Sequence[tuple[str, str]], bootstrap: str, as_json: bool, **whom: Any) -> None:
    """Set quotas, e.g. `ottla quota set --client loader producer_byte_rate=10MiB`."""
    entity = _required(_entity(**whom))
    operations = [OpData(key=name, value=_rate(name, text)) for name, text in quotas]
    _alter(bootstrap, entity, operations)
    print_changes({"entity": _shown(entity), "set": {change.key: change.value for change in operations}}, as_json)


@command.command("remove")
@click.argument("quotas", metavar="[QUOTA]…", nargs=-1)
@_entity_options
@connected
def remove_quotas(quotas: Sequence[str], bootstrap: str, as_json: bool, **whom: Any) -> None:
    """Remove quotas of a client or user: all of them if none is named."""
    entity = _required(_entity(**whom))
    names = quotas or [name for found in _describe(bootstrap, entity) for name in found["quotas"]]
    _alter(bootstrap, entity, [OpData(key=name, remove=True) for name in names])
    print_changes({"entity": _shown(entity), "removed": list(names)}, as_json)


def _entity(*, client: str | None, default_client: bool, user: str | None, default_user: bool) -> Entity:
    if (client is not None and default_client) or (user is not None and default_user):
        raise click.UsageError("Name a client or user, or ask for the default of all; not both.")
    entity: Entity = {}
    if user is not None or default_user:
        entity["user"] = user
    if client is not None or default_client:
        entity["client-id"] = client
    return entity


def _required(entity: Entity) -> Entity:
    if not entity:
        raise click.UsageError("For whom? Give --client, --user, --default-client or --default-user.")
    return entity


def _rate(name: str, text: str) -> float:
    try:
        return float(parse_quantity(text, "bytes") if name.endswith("_byte_rate") else float(text))
    except ValueError as error:
        raise click.UsageError(f"{name}: {text!r}: {error}.") from None


def _describe(bootstrap: str, entity: Entity) -> list[dict[str, Any]]:
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=bool(entity))
    answer = ask(bootstrap, request, DescribeClientQuotasResponse)
    if answer.error_code:
        raise CommandError(f"The broker refused: {error_text(answer.error_code, answer.error_message)}")
    return [
        {
            "user": _name(entry.entity, "user"),
            "client_id": _name(entry.entity, "client-id"),
            "quotas": {value.key: value.value for value in entry.values},
        }
        for entry in answer.entries or ()
    ]


def _name(entity: Sequence[Any], kind: str) -> str | None:
    for part in entity:
        if part.entity_type == kind:
            return "<default>" if part.entity_name is None else str(part.entity_name)
    return None


def _shown(entity: Entity) -> dict[str, str]:
    return {kind: "<default>" if name is None else name for kind, name in entity.items()}


def _alter(bootstrap: str, entity: Entity, operations: Sequence[OpData]) -> None:
    if not operations:
        return
    whom = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=whom, ops=operations)])
    for entry in ask(bootstrap, request, AlterClientQuotasResponse).entries:
        if entry.error_code:
            raise CommandError(f"The broker refused: {error_text(entry.error_code, entry.error_message)}")


def _print(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        (entry["user"], entry["client_id"], name, value) for entry in found for name, value in entry["quotas"].items()
    ]
    print_table(["user", "client id", "quota", "value"], rows, empty="There are no such quotas.")

"""Names of topics and groups for the shell's Tab key. Whatever goes wrong, the answer is: no names."""

from collections.abc import Callable, Iterable

import click

from ottla.cli.connection import admin
from ottla.cli.failures import CommandError
from ottla.cli.options import BOOTSTRAP_DEFAULT
from ottla.client.admin import Admin
from ottla.errors import OttlaError


def topic_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return _matching(context, incomplete, lambda cluster: [topic.name for topic in cluster.list_topics()])


def group_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return _matching(context, incomplete, lambda cluster: [group.group_id for group in cluster.list_groups()])


def _matching(context: click.Context, incomplete: str, names: Callable[[Admin], Iterable[str]]) -> list[str]:
    try:
        with admin(context.params.get("bootstrap") or BOOTSTRAP_DEFAULT) as cluster:
            return [name for name in names(cluster) if name.startswith(incomplete)]
    except (CommandError, OttlaError):
        return []

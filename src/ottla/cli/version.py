"""`ottla version`."""

from importlib.metadata import version as installed_version

import click

from ottla.cli.options import json_option
from ottla.cli.output import print_json


@click.command
@json_option
def command(as_json: bool) -> None:
    """Print the version."""
    version = installed_version("ottla")
    if as_json:
        print_json({"version": version})
    else:
        click.echo(f"ottla {version}")

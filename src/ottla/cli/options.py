"""Options that several commands share, and the types of their values."""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ottla.cli.stdin_end import until_stdin_ends_option
from ottla.cli.times import parse_duration_ms, parse_moment_ms, parse_position
from ottla.config.units import parse_quantity

Command = TypeVar("Command", bound=Callable[..., Any])

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
BOOTSTRAP_DEFAULT = "127.0.0.1:9092"


def _parsed(name: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for an option: `parse` makes the value, and what its ValueError says becomes the usage error."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    convert.__name__ = name
    return convert


def parse_pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


def parse_partitions(text: str) -> list[int]:
    """`0`, `0,3,5` or `0-5`."""
    numbers: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
        if first > last:
            raise ValueError(f"{text!r} is not a list of partitions like 0, 0,3,5 or 0-5")
        numbers.extend(range(first, last + 1))
    return numbers


def parse_topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`orders` for all partitions, `orders:0,2` for some."""
    topic, found, partitions = text.partition(":")
    if not topic:
        raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITIONS")
    return topic, parse_partitions(partitions) if found else None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


DURATION = _parsed("duration", parse_duration_ms)
MOMENT = _parsed("time", lambda text: parse_moment_ms(text, now_ms()))
PAIR = _parsed("name=value", parse_pair)
PARTITIONS = _parsed("partitions", parse_partitions)
POSITION = _parsed("place", lambda text: parse_position(text, now_ms()))
SIZE = _parsed("size", lambda text: parse_quantity(text, "bytes"))
TOPIC_PARTITIONS = _parsed("topic[:partitions]", parse_topic_partitions)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")

bootstrap_option = click.option(
    "--bootstrap",
    metavar="HOST:PORT[,…]",
    default=BOOTSTRAP_DEFAULT,
    show_default=True,
    envvar="OTTLA_BOOTSTRAP",
    show_envvar=True,
    help="A broker to begin with.",
)


def connected(command: Command) -> Command:
    """The options of every command that talks to a broker: `--bootstrap` and `--json`."""
    return bootstrap_option(json_option(command))


def listening_options(command: Command) -> Command:
    """The options of commands that serve in front of a cluster: where they listen, what they log, when they end."""
    where = "Where to listen (127.0.0.1); 0.0.0.0 for every interface."
    command = until_stdin_ends_option(command)
    command = click.option("--log-level", metavar="LEVEL", default="info", help="debug, info, warning or error.")(
        command
    )
    return click.option("--address", metavar="HOST", help=where)(command)

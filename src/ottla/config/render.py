"""`config/broker.yaml` and `docs/CONFIGURATION.md`, written from the settings themselves.

`python -m ottla.config.render`, at the root of the repository, writes both; a test compares them with what is
committed.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.docs import field_docs
from ottla.config.names import Setting, normalised, settings
from ottla.config.settings import limits_text
from ottla.config.units import format_quantity

COLUMNS = 100

YAML_HEAD = """\
# Every setting of a node with its default. Generated from the source (python -m ottla.config.render).
#
# ottla start --config config/broker.yaml reads it; a setting that is left out has its default.
# The environment overrules the file (OTTLA_PORT, OTTLA_JOURNAL_DURABILITY), flags overrule both.
# Sizes may be written as 64MiB or 1GB, durations as 500ms, 30s, 12h or 7d, lists as a, b.
"""

MARKDOWN_HEAD = """\
# Configuration

Every setting of a node. Generated from the source by `python -m ottla.config.render`.

Settings come from their defaults, the YAML file given with `ottla start --config`, the environment and the command
line, each overruling the ones before it. [config/broker.yaml](../config/broker.yaml) holds them all, with their
defaults, in the form of a file. A setting's variable is its name in capitals with `OTTLA_` before it and underscores
for dots: `journal.durability` is `OTTLA_JOURNAL_DURABILITY`. On the command line any setting can be given as
`--set name=value`. An unknown name is an error.

Sizes may be written as `64MiB` or `1GB`, durations as `500ms`, `30s`, `12h` or `7d`. Kafka's names are accepted where
the last column has one, and so are `replication_factor`, `segment_size`, `log_retention_hours`, `wal_enabled` (false:
durability os) and `wal_sync_interval` (0: durability commit; else interval).

What can be changed while the cluster runs (`ottla config`, `kafka-configs`) is a topic's or broker's config under
Kafka's name; of a node's settings those are the ones in `log`.
"""


def render_yaml() -> str:
    """`config/broker.yaml`."""
    blocks = [YAML_HEAD]
    section = ""
    for setting in settings().values():
        head = ""
        if _section_of(setting) != section:
            section = _section_of(setting)
            head = f"{_comment(_section_doc(section), '')}{section}:\n"
        blocks.append(head + _yaml_entry(setting, "  " if section else ""))
    return "\n".join(blocks)


def _yaml_entry(setting: Setting, indent: str) -> str:
    notes = [_doc(setting), _values_note(setting), _kafka_note(setting)]
    comments = "".join(_comment(note, indent) for note in notes if note)
    return f"{comments}{indent}{setting.field.name}: {value_text(setting)}\n"


def _comment(text: str, indent: str) -> str:
    lines = textwrap.wrap(text, COLUMNS, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    return "".join(f"{line}\n" for line in lines)


def _values_note(setting: Setting) -> str:
    values = _values(setting)
    return f"{values[0].upper()}{values[1:]}." if values else ""


def _kafka_note(setting: Setting) -> str:
    names = [name for name in setting.kafka_names if normalised(name) != normalised(setting.path)]
    return f"Kafka: {', '.join(names)}" if names else ""


def value_text(setting: Setting) -> str:
    """A setting's default as it stands in a YAML file."""
    value: Any = setting.field.default
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return format_quantity(value, setting.unit)
    if isinstance(value, frozenset):
        return f"[{', '.join(sorted(value))}]"
    return str(value)


def _values(setting: Setting) -> str:
    wanted: Any = setting.field.type
    if isinstance(wanted, type) and issubclass(wanted, StrEnum):
        return f"one of {', '.join(wanted)}"
    return limits_text(setting.field, with_type_limits=False)


def _section_of(setting: Setting) -> str:
    return setting.path.rpartition(".")[0]


def _section_doc(section: str) -> str:
    return field_docs(BrokerConfig)[section]


def _doc(setting: Setting) -> str:
    return field_docs(setting.owner)[setting.field.name]


def render_markdown() -> str:
    """`docs/CONFIGURATION.md`."""
    sections = ["", *(item.name for item in fields(BrokerConfig) if is_dataclass(item.type))]
    return MARKDOWN_HEAD + "".join(_markdown_section(section) for section in sections)


def _markdown_section(section: str) -> str:
    title, intro = (f"`{section}`", _section_doc(section)) if section else ("The node", "Who it is, where it listens.")
    head = f"\n## {title}\n\n{intro}\n\n| Setting | Default | Values | Meaning | Kafka |\n|---|---|---|---|---|\n"
    rows = "".join(_markdown_row(setting) for setting in settings().values() if _section_of(setting) == section)
    return head + rows


def _markdown_row(setting: Setting) -> str:
    kafka = ", ".join(f"`{name}`" for name in setting.kafka_names)
    return f"| `{setting.path}` | `{value_text(setting)}` | {_values(setting)} | {_doc(setting)} | {kafka} |\n"


def files() -> Iterator[tuple[str, str]]:
    """What is generated, by its path in the repository."""
    yield "config/broker.yaml", render_yaml()
    yield "docs/CONFIGURATION.md", render_markdown()


if __name__ == "__main__":
    for path, text in files():
        Path(path).write_text(text, encoding="utf-8")

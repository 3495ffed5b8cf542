"""From what people write to a `BrokerConfig`: defaults < YAML file < environment < command line.

Each source is read into assignments (setting, value, where it came from); later sources replace earlier ones, and only
then is anything built, so that a complaint can always say which file, variable or flag to look at.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.names import WAL_ENABLED, WAL_SYNC_INTERVAL, normalised, resolve, settings
from ottla.config.storage import Durability
from ottla.config.values import as_bool, as_quantity, converted
from ottla.errors import ConfigError

ENVIRONMENT_PREFIX = "OTTLA_"
_NOT_FOR_THE_NODE = r"OTTLA_(CONFIG|BOOTSTRAP\w*|(TEST|BENCH|CRASH|FUZZ|INTEROP|SERVICE)_\w*|PORT_\d+_\w*)"
"""Variables of the client and of tests, and those that Kubernetes gives every pod for a service named `ottla`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One setting was given a value."""

    path: str
    value: object
    where: str


def load_config(
    path: str | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> BrokerConfig:
    """The settings of a node. `overrides` are flags by name; those that are None were not given."""
    layers = (
        _from_file(path) if path is not None else (),
        _from_environment(env or {}),
        _from_overrides(overrides or {}),
    )
    assigned: dict[str, Assignment] = {}
    for layer in layers:
        assigned.update(_without_contradiction(layer))
    return _build(assigned)


def _from_file(path: str) -> Iterator[Assignment]:
    yield from assignments(_entries(_read_yaml(path), path), path)


def _read_yaml(path: str) -> Mapping[Any, object]:
    import yaml  # only here: a node without a file need not pay for the import

    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # in C: 2 ms, in Python: 20
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a YAML file: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected settings as `name: value` lines, found a {type(document).__name__}")
    return document


def _entries(section: Mapping[Any, object], where: str, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in section.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _entries(value, where, f"{name}.")
        elif not (value is None and _is_section(name)):
            yield name, value


def _is_section(name: str) -> bool:
    return any(path.startswith(f"{name}.") for path in settings())


def _from_environment(env: Mapping[str, str]) -> Iterator[Assignment]:
    for variable, value in env.items():
        ours = variable.startswith(ENVIRONMENT_PREFIX) and not re.fullmatch(_NOT_FOR_THE_NODE, variable)
        if ours and not value.startswith("tcp://"):  # Kubernetes: OTTLA_PORT=tcp://10.0.0.7:9092
            yield from assignments([(variable.removeprefix(ENVIRONMENT_PREFIX), value)], f"environment: {variable}")


def _from_overrides(overrides: Mapping[str, object]) -> Iterator[Assignment]:
    given = [(name, value) for name, value in overrides.items() if value is not None]
    yield from assignments(given, "command line")


def assignments(entries: Iterable[tuple[str, object]], where: str) -> Iterator[Assignment]:
    """What `entries` set, with values of the right type."""
    for name, value in entries:
        if normalised(name) == WAL_ENABLED:
            yield from _wal_enabled(value, where)
        elif normalised(name) == WAL_SYNC_INTERVAL:
            yield from _wal_sync_interval(value, where)
        else:
            target = resolve(name, where)
            converted_value = converted(settings()[target.path], value, target.unit, f"{where}: {name}")
            yield Assignment(path=target.path, value=converted_value, where=where)


def _wal_enabled(value: object, where: str) -> Iterator[Assignment]:
    """The journal can't be left out, since recovery stands on it; without a WAL means: do not wait for the disk."""
    if not as_bool(value, f"{where}: {WAL_ENABLED}"):
        yield Assignment(path="journal.durability", value=Durability.OS, where=where)


def _wal_sync_interval(value: object, where: str) -> Iterator[Assignment]:
    """0 syncs every commit; anything else asks for a sync at intervals."""
    interval_ms = as_quantity(value, "ms", "ms", f"{where}: {WAL_SYNC_INTERVAL}")
    durability = Durability.INTERVAL if interval_ms else Durability.COMMIT
    yield Assignment(path="journal.durability", value=durability, where=where)
    if interval_ms:
        yield Assignment(path="journal.sync_interval_ms", value=interval_ms, where=where)


def _without_contradiction(layer: Iterable[Assignment]) -> Mapping[str, Assignment]:
    """One source may give a setting under two names, but not two values."""
    found: dict[str, Assignment] = {}
    for item in layer:
        other = found.get(item.path)
        if other is not None and other.value != item.value:
            raise ConfigError(f"{item.where}: {item.path} is given twice: {other.value!r} and {item.value!r}")
        found[item.path] = item
    return found


def _build(assigned: Mapping[str, Assignment]) -> BrokerConfig:
    tree: dict[str, Any] = {}
    for path, item in assigned.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = item.value
    try:
        return _build_class(BrokerConfig, tree)
    except ConfigError as error:
        culprit = assigned.get(str(error).partition(":")[0])
        raise ConfigError(f"{culprit.where}: {error}" if culprit else str(error)) from None


def _build_class(cls: type[BrokerConfig], tree: Mapping[str, Any]) -> BrokerConfig:
    values = dict(tree)
    for item in cls.__dataclass_fields__.values():
        if isinstance(item.type, type) and is_dataclass(item.type) and item.name in values:
            values[item.name] = item.type(**values[item.name])
    return cls(**values)

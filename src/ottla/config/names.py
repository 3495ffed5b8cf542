"""Every name that a setting answers to.

A setting's own name is its path, `journal.file_size_bytes`. Dots, dashes and underscores are one, so that a YAML
section, a flag (`--journal-file-size-bytes`) and a variable (`OTTLA_JOURNAL_FILE_SIZE_BYTES`) all lead to it. Kafka's
names (`log.roll.ms`) and those of the design that Ottla grew out of (`broker_id`, `log_retention_hours`) are accepted
too, so that files people have go on working.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass
from functools import cache
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.membership import ALIASES as GOSSIP_ALIASES
from ottla.config.settings import walk
from ottla.config.units import unit_of
from ottla.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting as a loader sees it."""

    path: str
    field: "Field[Any]"
    owner: type[Any]
    unit: str | None

    @property
    def kafka_names(self) -> tuple[str, ...]:
        """What Kafka calls it: in the section `log` its path with dots, unless said otherwise."""
        given: tuple[str, ...] = self.field.metadata.get("kafka", ())
        if not given and self.path.startswith("log."):
            return (self.path.replace("_", "."),)
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a name leads, and the unit in which a bare number under that name is meant."""

    path: str
    unit: str | None


LEGACY = {
    "host": Target(path="address", unit=None),
    "advertised_host": Target(path="advertised_address", unit=None),
    "replication_factor": Target(path="default_replication_factor", unit=None),
    "segment_size": Target(path="log.segment_bytes", unit="bytes"),
    "segment_bytes": Target(path="log.segment_bytes", unit="bytes"),
    "log_retention_hours": Target(path="log.retention_ms", unit="hours"),
    "log_retention_minutes": Target(path="log.retention_ms", unit="minutes"),
    "log_roll_hours": Target(path="log.segment_ms", unit="hours"),
    "retention_hours": Target(path="log.retention_ms", unit="hours"),
    "durability": Target(path="journal.durability", unit=None),
    "log_level": Target(path="logging.level", unit=None),
    "log_format": Target(path="logging.format", unit=None),
    **{alias: Target(path=f"gossip.{name}", unit=unit_of(name)) for alias, name in GOSSIP_ALIASES.items()},
}
"""Names that are neither a path nor Kafka's own."""

WAL_ENABLED = "wal_enabled"
WAL_SYNC_INTERVAL = "wal_sync_interval"
"""These two decide about more than one setting: see `ottla.config.load`."""


def normalised(name: str) -> str:
    return name.replace(".", "_").replace("-", "_").lower()


@cache
def settings() -> Mapping[str, Setting]:
    """Every setting by its path, in the order in which they are documented."""
    found = walk(BrokerConfig)
    return {path: Setting(path=path, field=item, owner=owner, unit=unit_of(item.name)) for path, item, owner in found}


@cache
def targets() -> Mapping[str, Target]:
    """Every accepted name, normalised. A path wins over an alias."""
    known: dict[str, Target] = dict(LEGACY)
    for setting in settings().values():
        for name in setting.kafka_names:
            known[normalised(name)] = Target(path=setting.path, unit=setting.unit)
    for setting in settings().values():
        known[normalised(setting.path)] = Target(path=setting.path, unit=setting.unit)
    return known


def resolve(name: str, where: str) -> Target:
    """What `name` means; an unknown name is an error that offers the nearest known one."""
    target = targets().get(normalised(name))
    if target is None:
        raise ConfigError(f"{where}: there is no setting {name!r}{did_you_mean(name)}")
    return target


def did_you_mean(name: str) -> str:
    import difflib  # only here: a name that is right does not pay for it

    near = difflib.get_close_matches(normalised(name), [*targets(), WAL_ENABLED, WAL_SYNC_INTERVAL], n=1, cutoff=0.6)
    if not near:
        return "; config/broker.yaml lists them all"
    target = targets().get(near[0])
    is_path = target is not None and normalised(target.path) == near[0]
    return f"; did you mean {target.path if target is not None and is_path else near[0]!r}?"

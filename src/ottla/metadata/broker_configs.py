"""The configs of a broker: every setting of its file, under Kafka's name where Kafka has one.

Those about logs can be changed while the cluster runs, for one broker or for all, and what may be placed on one broker;
the others show what the node was started with.
"""

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

from ottla.config import BrokerConfig
from ottla.config.names import Setting, settings
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.config_defs import ConfigDef, define
from ottla.metadata.placement import PLACEMENT
from ottla.metadata.topic_configs import MIN_INSYNC_REPLICAS, dynamic_log_config


@cache
def broker_configs() -> Mapping[str, ConfigDef]:
    """By name, in alphabetical order. What has two names in Kafka (node.id, broker.id) has both here."""
    found = {name: setting for setting in settings().values() for name in _names_of(setting)}
    return {
        name: define(name, setting, read_only=not (setting.path.startswith("log.") or name == PLACEMENT))
        for name, setting in sorted(found.items())
    }


def _names_of(setting: Setting) -> tuple[str, ...]:
    return setting.kafka_names or ("ottla." + setting.path.replace("_", "."),)


def static_value(config: BrokerConfig, definition: ConfigDef) -> Any:
    """What the node was started with."""
    return reduce(getattr, definition.setting.path.split("."), config)


def require_dynamic(config: BrokerConfig, values: Mapping[str, str], *, for_all: bool = False) -> None:
    """INVALID_CONFIG unless all of these may be set while the node runs, for one broker or `for_all`, and fit
    together."""
    known = broker_configs()
    for name in values:
        if name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}")
        if known[name].read_only:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Cannot update this config dynamically: {name}")
    if PLACEMENT in values:
        known[PLACEMENT].parse(values[PLACEMENT])
        if for_all:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{PLACEMENT} is set for one broker, never for all of them.")
    if MIN_INSYNC_REPLICAS in values and not for_all:
        # Who may lead after a failure depends on it, so every leader must go by the same.
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} is set for all brokers or for a topic.")
    dynamic_log_config(config.log, values)

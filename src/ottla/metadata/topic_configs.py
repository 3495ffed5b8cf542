"""The configs of topics, and the log settings that follow from them.

A topic's value wins over what was set for its broker while it ran, that over what was set for all brokers, that over
the broker's file, and that over the default. Each topic config has a counterpart on the broker under another name
(`retention.ms` and `log.retention.ms`), which is where the lower levels are looked up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ottla.config import BrokerConfig, LogConfig
from ottla.config.names import settings
from ottla.errors import BrokerError, ConfigError, ErrorCode
from ottla.metadata.config_defs import ConfigDef, define
from ottla.metadata.image import ALL_BROKERS, MetadataImage, ResourceType
from ottla.values import value

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


@value
class TopicConfig:
    topic: ConfigDef
    broker: ConfigDef
    """The same setting as the broker knows it."""

    @property
    def field_name(self) -> str:
        return self.topic.setting.field.name


@cache
def topic_configs() -> Mapping[str, TopicConfig]:
    """All that a topic can set, by name, in alphabetical order."""
    found = {config.topic.name: config for config in _define_all()}
    return dict(sorted(found.items()))


def _define_all() -> Iterator[TopicConfig]:
    for path, setting in settings().items():
        if path.startswith("log."):
            yield TopicConfig(
                topic=define(setting.field.name.replace("_", "."), setting, read_only=False),
                broker=define(setting.kafka_names[0], setting, read_only=False),
            )


@cache
def _by_broker_name() -> Mapping[str, TopicConfig]:
    return {config.broker.name: config for config in topic_configs().values()}


def log_config(base: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """`base` with a topic's configs in place. INVALID_CONFIG for an unknown name or a value that can't be."""
    if not overrides:
        return base
    known = topic_configs()
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        if name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        values[known[name].field_name] = known[name].topic.parse(text)
    return _replaced(base, values)


def broker_log_config(config: BrokerConfig, image: MetadataImage) -> LogConfig:
    """What holds on this broker for a topic that sets nothing."""
    dynamic = {**image.configs.get(ALL_BROKERS, {}), **image.config_of(ResourceType.BROKER, str(config.node_id))}
    return dynamic_log_config(config.log, dynamic)


def dynamic_log_config(base: LogConfig, dynamic: Mapping[str, str]) -> LogConfig:
    """`base` with the broker's dynamic configs in place; those that are not about logs are left out."""
    known = _by_broker_name()
    values = {known[name].field_name: known[name].broker.parse(text) for name, text in dynamic.items() if name in known}
    return _replaced(base, values) if values else base


def topic_log_config(config: BrokerConfig, image: MetadataImage, topic: str) -> LogConfig:
    """The settings of a topic's logs on this broker."""
    return log_config(broker_log_config(config, image), image.config_of(ResourceType.TOPIC, topic))


def _replaced(base: LogConfig, values: Mapping[str, Any]) -> LogConfig:
    try:
        return replace(base, **values)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error).removeprefix("log.")) from None

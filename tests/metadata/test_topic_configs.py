from dataclasses import fields

import pytest

from ottla.config import BrokerConfig, LogConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.state import MetadataState
from ottla.metadata.topic_configs import broker_log_config, log_config, topic_configs, topic_log_config
from ottla.protocol.messages.metadata_records import ConfigRecord

KAFKA_4_0 = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic configs and what the broker calls them, without those of tiered storage and throttled replication."""


def test_names_are_kafkas_on_the_topic_and_on_the_broker() -> None:
    assert {name: config.broker.name for name, config in topic_configs().items()} == KAFKA_4_0


def test_every_log_setting_is_a_topic_config() -> None:
    assert {config.field_name for config in topic_configs().values()} == {item.name for item in fields(LogConfig)}


def test_a_topic_replaces_what_it_names_and_nothing_else() -> None:
    base = LogConfig(segment_bytes=1_000)
    config = log_config(base, {"retention.ms": "5", "cleanup.policy": "compact"})
    assert config == LogConfig(segment_bytes=1_000, retention_ms=5, cleanup_policy=frozenset({"compact"}))


def test_a_topic_that_names_nothing_shares_the_brokers_settings() -> None:
    base = LogConfig()
    assert log_config(base, {}) is base


@pytest.mark.parametrize(
    "overrides",
    [{"nope": "1"}, {"retention.ms": "x"}, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}],
)
def test_configs_that_can_not_be_are_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(BrokerError) as caught:
        log_config(LogConfig(), overrides)
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_the_topic_wins_over_its_broker_that_over_all_brokers_and_that_over_the_file() -> None:
    config = BrokerConfig(node_id=7, log=LogConfig(retention_ms=1, segment_ms=1, flush_ms=1, segment_bytes=1_000))
    state = MetadataState()
    for kind, resource, name, value in [
        (4, "", "log.retention.ms", "2"),
        (4, "", "log.roll.ms", "2"),
        (4, "", "log.flush.interval.ms", "2"),
        (4, "7", "log.retention.ms", "3"),
        (4, "7", "log.roll.ms", "3"),
        (4, "8", "log.retention.ms", "99"),
        (2, "t", "retention.ms", "4"),
    ]:
        state.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))

    of_topic = topic_log_config(config, state.image, "t")
    of_other = topic_log_config(config, state.image, "other")

    assert (of_topic.retention_ms, of_topic.segment_ms, of_topic.flush_ms, of_topic.segment_bytes) == (4, 3, 2, 1_000)
    assert of_other == broker_log_config(config, state.image)
    assert of_other.retention_ms == 3

import dataclasses
from typing import Any

import pytest

from ottla.client.settings import (
    AckMode,
    AdminConfig,
    ConsumerConfig,
    OffsetResetPolicy,
    ProducerConfig,
    server_list,
)
from ottla.errors import ConfigError


def test_servers_may_be_a_string_or_a_list() -> None:
    assert server_list("a:1, b:2") == "a:1,b:2"
    assert server_list(["a:1", "b:2"]) == "a:1,b:2"


@pytest.mark.parametrize("servers", ["", " , ", []])
def test_no_servers_are_refused(servers: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        AdminConfig(bootstrap_servers=servers)


def test_the_producer_of_the_original_design_is_understood() -> None:
    config = ProducerConfig(
        bootstrap_servers=["localhost:9092"],
        acks=AckMode.ALL,
        batch_size=16384,
        linger_ms=10,
        retries=3,
        enable_idempotence=True,
        compression_type="gzip",
    )

    settings = config.librdkafka()

    assert settings["bootstrap.servers"] == "localhost:9092"
    assert settings["acks"] == -1
    assert settings["batch.size"] == 16384
    assert settings["linger.ms"] == 10
    assert settings["retries"] == 3
    assert settings["enable.idempotence"] is True
    assert settings["compression.type"] == "gzip"


def test_keys_are_hashed_as_java_does() -> None:
    assert ProducerConfig().librdkafka()["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(("acks", "idempotent"), [(AckMode.ALL, True), (AckMode.LEADER, False), (AckMode.NONE, False)])
def test_idempotence_is_on_where_the_acks_allow_it(acks: AckMode, idempotent: bool) -> None:
    assert ProducerConfig(acks=acks).librdkafka()["enable.idempotence"] is idempotent


def test_idempotence_without_all_acks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"acks=AckMode\.ALL"):
        ProducerConfig(acks=AckMode.LEADER, enable_idempotence=True)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("compression_type", "rar"),
        ("batch_size", 0),
        ("linger_ms", -1),
        ("buffer_memory", 10),
        ("buffer_records", 0),
        ("max_block_ms", -1),
        ("delivery_timeout_ms", 0),
    ],
)
def test_a_producer_setting_that_cannot_work_is_named(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=setting):
        dataclasses.replace(ProducerConfig(), **{setting: value})


def test_the_consumer_of_the_original_design_is_understood() -> None:
    config = ConsumerConfig(
        bootstrap_servers="a:1",
        group_id="billing",
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
        enable_auto_commit=True,
        max_poll_records=500,
    )

    settings = config.librdkafka()

    assert settings["group.id"] == "billing"
    assert settings["auto.offset.reset"] == "earliest"
    assert settings["enable.auto.commit"] is True


def test_what_may_be_committed_is_never_left_to_librdkafka() -> None:
    assert ConsumerConfig(group_id="g").librdkafka()["enable.auto.offset.store"] is False


def test_without_a_group_nothing_is_committed() -> None:
    assert ConsumerConfig().librdkafka()["enable.auto.commit"] is False


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("partition_assignment_strategy", "dice"),
        ("partition_assignment_strategy", "range,cooperative-sticky"),
        ("max_poll_records", 0),
        ("session_timeout_ms", 1_000),
        ("max_poll_interval_ms", 10_000),
        ("group_id", ""),
    ],
)
def test_a_consumer_setting_that_cannot_work_is_refused(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError):
        dataclasses.replace(ConsumerConfig(group_id="g"), **{setting: value})


@pytest.mark.parametrize("config", [AdminConfig, ProducerConfig, ConsumerConfig])
def test_what_is_given_in_extra_wins(config: type[AdminConfig] | type[ProducerConfig] | type[ConsumerConfig]) -> None:
    settings = config(extra={"client.id": "mine", "security.protocol": "ssl"}).librdkafka()

    assert settings["client.id"] == "mine"
    assert settings["security.protocol"] == "ssl"

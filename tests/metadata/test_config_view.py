from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.config import BrokerConfig, LogConfig
from ottla.errors import ErrorCode
from ottla.metadata.broker_configs import broker_configs
from ottla.metadata.config_defs import ConfigSource, ConfigType
from ottla.metadata.config_view import describe_configs
from ottla.metadata.controller import Controller
from ottla.metadata.image import ResourceType
from ottla.metadata.topic_configs import topic_configs
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from ottla.protocol.messages.metadata_records import ConfigRecord
from tests.metadata.cluster import a_controller, create

CONFIG = BrokerConfig(log=LogConfig(retention_ms=5, segment_ms=6))


@pytest.fixture
def controller() -> Controller:
    """Topic `t` with one config of its own, and configs that were set for all brokers and for one."""
    controller = a_controller(2, config=CONFIG)
    create(controller, "t", configs={"retention.ms": "1"})
    for name, resource, value in [
        ("log.retention.ms", "", "3"),
        ("log.retention.ms", "1", "2"),
        ("log.segment.bytes", "", "1000"),
    ]:
        controller.replay(ConfigRecord(resource_type=4, resource_name=resource, name=name, value=value))
    return controller


def describe(
    controller: Controller, type_: int, name: str, keys: Sequence[str] | None = None, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=type_, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], **options)
    (result,) = describe_configs(request, controller.image, CONFIG).results
    assert (result.resource_type, result.resource_name) == (type_, name)
    return result


def by_name(result: DescribeConfigsResult) -> Mapping[str, DescribeConfigsResourceResult]:
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    return {config.name: config for config in result.configs}


def test_a_topics_configs_come_from_the_nearest_level(controller: Controller) -> None:
    configs = by_name(describe(controller, ResourceType.TOPIC, "t"))
    assert list(configs) == list(topic_configs())
    found = {name: (configs[name].value, configs[name].config_source) for name in configs}
    assert found["retention.ms"] == ("1", ConfigSource.TOPIC)
    assert found["segment.bytes"] == ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert found["segment.ms"] == ("6", ConfigSource.STATIC_BROKER)
    assert found["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert not any(config.read_only or config.is_sensitive for config in configs.values())


def test_synonyms_are_all_levels_from_the_nearest_on(controller: Controller) -> None:
    configs = by_name(describe(controller, ResourceType.TOPIC, "t", include_synonyms=True))
    assert [(s.name, s.value, s.source) for s in configs["retention.ms"].synonyms] == [
        ("retention.ms", "1", ConfigSource.TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "5", ConfigSource.STATIC_BROKER),
        ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
    ]


def test_synonyms_and_documentation_are_given_only_when_asked_for(controller: Controller) -> None:
    plain = by_name(describe(controller, ResourceType.TOPIC, "t"))["retention.ms"]
    assert (plain.synonyms, plain.documentation, plain.config_type) == ((), None, ConfigType.LONG)
    full = by_name(describe(controller, ResourceType.TOPIC, "t", include_documentation=True))
    assert all(len(config.documentation or "") > 20 for config in full.values())


def test_only_the_names_that_are_asked_for_are_described(controller: Controller) -> None:
    result = describe(controller, ResourceType.TOPIC, "t", ["retention.ms", "no.such"])
    assert list(by_name(result)) == ["retention.ms"]
    assert len(by_name(describe(controller, ResourceType.TOPIC, "t", []))) == len(topic_configs())


def test_a_broker_tells_of_all_its_settings(controller: Controller) -> None:
    configs = by_name(describe(controller, ResourceType.BROKER, "1"))
    assert list(configs) == list(broker_configs())
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == ("2", 2)
    assert (configs["node.id"].value, configs["node.id"].read_only) == ("1", True)
    assert configs["broker.rack"].value is None
    assert not configs["log.retention.ms"].read_only


def test_the_resource_for_all_brokers_has_only_what_was_set_for_them(controller: Controller) -> None:
    configs = by_name(describe(controller, ResourceType.BROKER, ""))
    assert {name: (config.value, config.config_source) for name, config in configs.items()} == {
        "log.retention.ms": ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "log.segment.bytes": ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    }


@pytest.mark.parametrize(
    ("type_", "name", "code"),
    [
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_told_for_that_resource(
    controller: Controller, type_: int, name: str, code: ErrorCode
) -> None:
    result = describe(controller, type_, name)
    assert (result.error_code, list(result.configs)) == (code, [])
    assert result.error_message

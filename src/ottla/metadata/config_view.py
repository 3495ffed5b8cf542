"""Which configs are in force, where each value comes from, and what lies behind it: the answers to
DescribeConfigs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.broker_configs import broker_configs, static_value
from ottla.metadata.config_defs import ConfigDef, ConfigSource, to_text
from ottla.metadata.image import ALL_BROKERS, MetadataImage, ResourceType
from ottla.metadata.topic_configs import broker_log_config, log_config, topic_configs
from ottla.metadata.topic_names import require_valid
from ottla.protocol.messages.create_topics import CreatableTopicConfigs
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class Synonym(NamedTuple):
    """A value that one of the levels has for a config."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfigView:
    """What one broker knows of a config, most important first. The last is always the default."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self._of_this = image.config_of(ResourceType.BROKER, str(config.node_id))
        self._of_all = image.configs.get(ALL_BROKERS, {})

    def synonyms(self, definition: ConfigDef) -> list[Synonym]:
        name = definition.name
        found = []
        if name in self._of_this:
            found.append(Synonym(name, self._of_this[name], ConfigSource.DYNAMIC_BROKER))
        if name in self._of_all:
            found.append(Synonym(name, self._of_all[name], ConfigSource.DYNAMIC_DEFAULT_BROKER))
        static = static_value(self._config, definition)
        if static != definition.default:
            found.append(Synonym(name, to_text(static), ConfigSource.STATIC_BROKER))
        found.append(Synonym(name, to_text(definition.default), ConfigSource.DEFAULT))
        return found


class TopicConfigView:
    """The configs of topics on one broker. A thousand new topics with the same configs cost as much as one."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._base = broker_log_config(config, image)
        self._broker = BrokerConfigView(config, image)
        self._valid: set[frozenset[tuple[str, str]]] = {frozenset()}
        self._of_new: dict[frozenset[tuple[str, str]], Sequence[CreatableTopicConfigs]] = {}

    def require_valid(self, overrides: Mapping[str, str]) -> None:
        key = frozenset(overrides.items())
        if key not in self._valid:
            log_config(self._base, overrides)
            self._valid.add(key)

    def synonyms(self, name: str, overrides: Mapping[str, str]) -> list[Synonym]:
        of_broker = self._broker.synonyms(topic_configs()[name].broker)
        return [Synonym(name, overrides[name], ConfigSource.TOPIC), *of_broker] if name in overrides else of_broker

    def of_new_topic(self, overrides: Mapping[str, str]) -> Sequence[CreatableTopicConfigs]:
        key = frozenset(overrides.items())
        if key not in self._of_new:
            self._of_new[key] = [_created(name, self.synonyms(name, overrides)[0]) for name in topic_configs()]
        return self._of_new[key]


def _created(name: str, in_force: Synonym) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(name=name, value=in_force.value, config_source=in_force.source)


def describe_configs(
    request: DescribeConfigsRequest, image: MetadataImage, config: BrokerConfig
) -> DescribeConfigsResponse:
    description = _Description(request, image, config)
    return DescribeConfigsResponse(results=[description.answer(resource) for resource in request.resources])


class _Description:
    def __init__(self, request: DescribeConfigsRequest, image: MetadataImage, config: BrokerConfig) -> None:
        self._request = request
        self._image = image
        self._config = config
        self._topics = TopicConfigView(config, image)
        self._broker = BrokerConfigView(config, image)

    def answer(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        try:
            configs = self._configs(resource)
        except BrokerError as error:
            return DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        return DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    def _configs(self, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        match resource.resource_type:
            case ResourceType.TOPIC:
                return self._of_topic(resource)
            case ResourceType.BROKER if not resource.resource_name:
                return self._of_all_brokers(resource)
            case ResourceType.BROKER:
                return self._of_broker(resource)
            case other:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type_name(other)}")

    def _of_topic(self, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        require_valid(resource.resource_name)
        if resource.resource_name not in self._image.topics:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{resource.resource_name}'.")
        overrides = self._image.config_of(ResourceType.TOPIC, resource.resource_name)
        return [
            self._entry(topic_configs()[name].topic, self._topics.synonyms(name, overrides))
            for name in _asked_for(resource, topic_configs())
        ]

    def _of_broker(self, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        if resource.resource_name != str(self._config.node_id):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._config.node_id} or empty string, "
                f"but received {resource.resource_name}",
            )
        return [
            self._entry(broker_configs()[name], self._broker.synonyms(broker_configs()[name]))
            for name in _asked_for(resource, broker_configs())
        ]

    def _of_all_brokers(self, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        """What was set for all brokers while they ran, and nothing else: the rest may differ between them."""
        values = self._image.configs.get(ALL_BROKERS, {})
        return [
            self._entry(broker_configs()[name], [Synonym(name, values[name], ConfigSource.DYNAMIC_DEFAULT_BROKER)])
            for name in _asked_for(resource, values)
        ]

    def _entry(self, definition: ConfigDef, synonyms: Sequence[Synonym]) -> DescribeConfigsResourceResult:
        in_force = synonyms[0]
        return DescribeConfigsResourceResult(
            name=definition.name,
            value=in_force.value,
            read_only=definition.read_only,
            config_source=in_force.source,
            synonyms=[
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                for synonym in synonyms
            ]
            if self._request.include_synonyms
            else (),
            config_type=definition.type,
            documentation=definition.documentation if self._request.include_documentation else None,
        )


def _asked_for(resource: DescribeConfigsResource, known: Iterable[str]) -> list[str]:
    """All, or those that the client names; a name that is not known is left out, as Kafka does."""
    keys = resource.configuration_keys
    return [name for name in known if not keys or name in keys]


def resource_type_name(number: int) -> str:
    try:
        return ResourceType(number).name
    except ValueError:
        return str(number)

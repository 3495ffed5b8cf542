"""New topics: those that a client asks for, and those that come to be by first use.

One request may name a thousand topics. Each is decided by itself and gets its own answer; the records of those that
are granted are one batch, so that a crash leaves all of them or none.
"""

from collections.abc import Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.config_view import TopicConfigView
from ottla.metadata.deciding import Deciding, NewRecords, given_twice
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC, needed_topic
from ottla.metadata.new_partitions import partition_records, require_usable
from ottla.metadata.placement import open_brokers, place
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_names import collision_key, require_valid
from ottla.ports import Random
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.metadata_records import ConfigRecord, TopicRecord
from ottla.replicated import Result
from ottla.types import NO_TOPIC_ID, TopicId

DEFAULT = -1
"""A number of partitions or replicas that is left to the broker."""
DASH_IN_BASE64 = 62


def create_topics(
    deciding: Deciding, request: CreateTopicsRequest, *, automatic: bool
) -> Result[MetadataRecord, CreateTopicsResponse]:
    """`automatic`: nobody asked for these topics as such, they come to be by first use. They get as many replicas as
    the cluster has brokers for, and their answers leave out the configs."""
    creation = _Creation(deciding, automatic=automatic, validate_only=request.validate_only)
    twice = given_twice(topic.name for topic in request.topics)
    results = [creation.answer(topic) for topic in request.topics if topic.name not in twice]
    results += [_refused(name, BrokerError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")) for name in twice]
    return Result(
        records=creation.new.unless(request.validate_only),
        response=CreateTopicsResponse(topics=results),
    )


class _Creation:
    """One request. Remembers what it has granted, since two of its own topics may collide too."""

    def __init__(self, deciding: Deciding, *, automatic: bool, validate_only: bool) -> None:
        self._deciding = deciding
        self._automatic = automatic
        self._validate_only = validate_only
        self._configs = TopicConfigView(deciding.config, deciding.image)
        self._brokers = open_brokers(deciding.image)
        self._colliding: dict[str, str] = {}
        self.new = NewRecords()

    def answer(self, topic: CreatableTopic) -> CreatableTopicResult:
        if self._automatic:
            topic = needed_topic(topic.name, self._deciding.config) or topic
        try:
            return self._create(topic)
        except BrokerError as error:
            return _refused(topic.name, error)

    def _create(self, topic: CreatableTopic) -> CreatableTopicResult:
        self._require_free(topic.name)
        overrides = _overrides(topic)
        self._configs.require_valid(overrides)
        assignments = self._assignments(topic)
        self.new.require_room(1 + len(overrides) + len(assignments))
        topic_id = new_topic_id(self._deciding.random, self._deciding.image)
        self.new.add([TopicRecord(name=topic.name, topic_id=topic_id)])
        self.new.add(_config_record(topic.name, name, value) for name, value in overrides.items())
        self.new.add(partition_records(topic_id, assignments, self._deciding.image))
        key = collision_key(topic.name)
        if key is not None:
            self._colliding[key] = topic.name
        return CreatableTopicResult(
            name=topic.name,
            topic_id=NO_TOPIC_ID if self._validate_only else topic_id,
            error_message=None,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=() if self._automatic else self._configs.of_new_topic(overrides),
        )

    def _require_free(self, name: str) -> None:
        require_valid(name)
        if name in self._deciding.image.topics:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name == METADATA_TOPIC:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if self._automatic and name in INTERNAL_TOPICS and needed_topic(name, self._deciding.config) is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Nobody here needs the internal topic {name}.")
        key = collision_key(name)
        other = key and (self._deciding.colliding_names.get(key) or self._colliding.get(key))
        if other:
            raise BrokerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )

    def _assignments(self, topic: CreatableTopic) -> Sequence[tuple[int, ...]]:
        if topic.assignments:
            return _manual_assignments(topic, self._deciding.image)
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
            raise BrokerError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        return self._place(topic)

    def _place(self, topic: CreatableTopic) -> Sequence[tuple[int, ...]]:
        config, brokers = self._deciding.config, self._brokers
        partitions = config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
        replicas = (
            config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
        )
        if self._automatic:
            replicas = max(1, min(replicas, len(brokers)))
        self.new.require_room(partitions)
        start = self._deciding.random.randint(0, max(0, len(brokers) - 1))
        return place(brokers, partitions=partitions, replication_factor=replicas, start=start)


def _manual_assignments(topic: CreatableTopic, image: MetadataImage) -> Sequence[tuple[int, ...]]:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but the number of partitions or the replication factor "
            "was not set to -1.",
        )
    by_index = {assignment.partition_index: tuple(assignment.broker_ids) for assignment in topic.assignments}
    if sorted(by_index) != list(range(len(topic.assignments))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The partitions of a manual assignment must be numbered from 0 without a gap, each once.",
        )
    for replicas in by_index.values():
        require_usable(replicas, image, expected_count=len(by_index[0]))
    return [by_index[index] for index in range(len(by_index))]


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
        )
    return {config.name: config.value for config in topic.configs if config.value is not None}


def new_topic_id(random: Random, image: MetadataImage) -> TopicId:
    """A random UUID that is not in use. Its text does not begin with a dash: on a command line that would be a flag."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if raw[0] >> 2 != DASH_IN_BASE64 and topic_id not in image.topics_by_id:
            return topic_id


def _config_record(topic: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message or None, configs=())

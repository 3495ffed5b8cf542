"""Changes of topics that exist: delete them, give them more partitions."""

from collections.abc import Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.deciding import Deciding, NewRecords, given_twice
from ottla.metadata.image import TopicImage
from ottla.metadata.new_partitions import partition_records, require_usable
from ottla.metadata.placement import open_brokers, place, seats
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.messages.metadata_records import RemoveTopicRecord
from ottla.replicated import Result
from ottla.types import NO_TOPIC_ID, TopicId


def delete_topics(deciding: Deciding, request: DeleteTopicsRequest) -> Result[MetadataRecord, DeleteTopicsResponse]:
    """By name or, from version 6 on, by id."""
    if not deciding.config.delete_topic_enable:
        raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    new, granted = NewRecords(), set[TopicId]()
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    results = [_delete(deciding, state, new, granted) for state in wanted]
    return Result(records=new.records, response=DeleteTopicsResponse(responses=results))


def _delete(
    deciding: Deciding, state: DeleteTopicState, new: NewRecords, granted: set[TopicId]
) -> DeletableTopicResult:
    try:
        topic = _find(deciding, state)
        if topic.topic_id in granted:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "The topic is named more than once in this request.")
        if topic.is_internal:
            raise BrokerError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Internal topic {topic.name} can't be deleted: groups live in it."
            )
        new.require_room(1)
    except BrokerError as error:
        return DeletableTopicResult(
            name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message or None
        )
    granted.add(topic.topic_id)
    new.add([RemoveTopicRecord(topic_id=topic.topic_id)])
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _find(deciding: Deciding, state: DeleteTopicState) -> TopicImage:
    if state.name is not None and state.topic_id != NO_TOPIC_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is not None:
        return _by_name(deciding, state.name)
    if state.topic_id == NO_TOPIC_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = deciding.image.topics_by_id.get(state.topic_id)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def _by_name(deciding: Deciding, name: str) -> TopicImage:
    topic = deciding.image.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    return topic


def create_partitions(
    deciding: Deciding, request: CreatePartitionsRequest
) -> Result[MetadataRecord, CreatePartitionsResponse]:
    new = NewRecords()
    twice = given_twice(topic.name for topic in request.topics)
    results = [_add_partitions(deciding, topic, new) for topic in request.topics if topic.name not in twice]
    results += [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name in twice
    ]
    return Result(records=new.unless(request.validate_only), response=CreatePartitionsResponse(results=results))


def _add_partitions(deciding: Deciding, wanted: CreatePartitionsTopic, new: NewRecords) -> CreatePartitionsTopicResult:
    try:
        topic = _by_name(deciding, wanted.name)
        _require_more(topic, wanted.count)
        new.require_room(wanted.count - len(topic.partitions))
        assignments = _assignments(deciding, topic, wanted)
        new.add(partition_records(topic.topic_id, assignments, deciding.image, len(topic.partitions)))
    except BrokerError as error:
        return CreatePartitionsTopicResult(name=wanted.name, error_code=error.code, error_message=error.message or None)
    return CreatePartitionsTopicResult(name=wanted.name)


def _require_more(topic: TopicImage, count: int) -> None:
    present = len(topic.partitions)
    if topic.is_internal:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Internal topic {topic.name} keeps its number of partitions: where a group lives depends on it.",
        )
    if count == present:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
        )


def _assignments(deciding: Deciding, topic: TopicImage, wanted: CreatePartitionsTopic) -> Sequence[tuple[int, ...]]:
    added = wanted.count - len(topic.partitions)
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return place(
            open_brokers(deciding.image),
            partitions=added,
            replication_factor=replication_factor,
            start=_start_of(deciding, topic),
            first_partition=len(topic.partitions),
        )
    assignments = [tuple(assignment.broker_ids) for assignment in wanted.assignments]
    if len(assignments) != added:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but {len(assignments)} assignment(s) were specified.",
        )
    for replicas in assignments:
        require_usable(replicas, deciding.image, replication_factor)
    return assignments


def _start_of(deciding: Deciding, topic: TopicImage) -> int:
    """Where the ring was entered for partition 0, so that new leaders go on where the old ones ended."""
    first = topic.partitions[0].replicas[0]
    return next((at for at, seat in enumerate(seats(open_brokers(deciding.image))) if seat.broker_id == first), 0)

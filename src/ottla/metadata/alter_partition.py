"""A leader says who is in sync with it, and the controller decides whether that is so from now on.

The leader counts a replica that it wants to add at once, and goes on counting one that it wants to drop until this is
committed. So what is refused here costs nothing but a delay; what is granted must be based on the newest state of the
partition, and on processes of brokers that are the newest too.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.brokers import require_epoch
from ottla.metadata.deciding import Deciding, NewRecords
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.leadership import Ballot
from ottla.metadata.partition_change import Recovery
from ottla.metadata.reassignments import completed
from ottla.metadata.records import MetadataRecord
from ottla.metadata.state import changed_partition
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.replicated import Result
from ottla.types import TopicId

ANY_EPOCH = -1


class Member(NamedTuple):
    """An in-sync replica, and the process of its broker that is."""

    broker_id: int
    broker_epoch: int


def alter_partition(
    deciding: Deciding, request: AlterPartitionRequest
) -> Result[MetadataRecord, AlterPartitionResponse]:
    require_epoch(deciding.image, request.broker_id, request.broker_epoch)
    alteration = _Alteration(deciding, request.broker_id)
    topics = [
        ResponseTopicData(topic_id=topic.topic_id, partitions=list(alteration.answers(topic)))
        for topic in request.topics
    ]
    return Result(records=alteration.new.records, response=AlterPartitionResponse(topics=topics))


class _Alteration:
    """One request."""

    def __init__(self, deciding: Deciding, leader: int) -> None:
        self._image = deciding.image
        self._leader = leader
        self._ballot = Ballot(deciding)
        self._granted: set[tuple[TopicId, int]] = set()
        self.new = NewRecords()

    def answers(self, topic: RequestTopicData) -> Iterable[ResponsePartitionData]:
        for wanted in topic.partitions:
            try:
                yield self._alter(topic.topic_id, wanted)
            except BrokerError as error:
                yield ResponsePartitionData(partition_index=wanted.partition_index, error_code=error.code)

    def _alter(self, topic_id: TopicId, wanted: RequestPartitionData) -> ResponsePartitionData:
        partition = _find(self._image, topic_id, wanted.partition_index)
        _require_current(partition, wanted, self._leader)
        members = _members(wanted)
        _require_sound(partition, wanted, members)
        _require_in_service(self._image, members)
        key = (topic_id, wanted.partition_index)
        if key in self._granted:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "The partition is named more than once in this request.")
        self.new.require_room(2)
        record = self._ballot.change(
            *key, isr=tuple(member.broker_id for member in members), recovery=wanted.leader_recovery_state
        )
        if record is not None:
            self._granted.add(key)
            self.new.add([record])
            partition = changed_partition(partition, record)
            partition = self._completed(key, partition)
        return _answer(wanted.partition_index, partition)

    def _completed(self, key: tuple[TopicId, int], partition: PartitionImage) -> PartitionImage:
        """If that was what a move to other replicas waited for, it is done; the leader may not be among them."""
        done = completed(self._image.brokers, *key, partition)
        if done is None:
            return partition
        self.new.add([done])
        partition = changed_partition(partition, done)
        if partition.leader != self._leader:
            raise BrokerError(ErrorCode.NEW_LEADER_ELECTED)
        return partition


def _answer(index: int, partition: PartitionImage) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _find(image: MetadataImage, topic_id: TopicId, index: int) -> PartitionImage:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(index)
    if partition is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _members(wanted: RequestPartitionData) -> list[Member]:
    """From version 3 on each with the epoch of its broker."""
    if wanted.new_isr_with_epochs:
        return [Member(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs]
    return [Member(broker_id, ANY_EPOCH) for broker_id in wanted.new_isr]


def _require_current(partition: PartitionImage, wanted: RequestPartitionData, leader: int) -> None:
    """The leader must know the newest of the partition. If it knows more than this node, another is the controller."""
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < partition.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader != partition.leader:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The leader is {partition.leader}, not {leader}.")
    if wanted.partition_epoch < partition.partition_epoch:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION)


def _require_sound(partition: PartitionImage, wanted: RequestPartitionData, members: Sequence[Member]) -> None:
    isr = [member.broker_id for member in members]
    is_recovering = wanted.leader_recovery_state == Recovery.RECOVERING
    sound = (
        partition.leader in isr
        and len(set(isr)) == len(isr)
        and set(isr) <= set(partition.replicas)
        and wanted.leader_recovery_state in (Recovery.RECOVERED, Recovery.RECOVERING)
        and not (is_recovering and (len(isr) > 1 or partition.leader_recovery_state == Recovery.RECOVERED))
    )
    if not sound:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"The in-sync replicas can't be {isr}.")


def _require_in_service(image: MetadataImage, members: Sequence[Member]) -> None:
    for member in members:
        broker = image.brokers.get(member.broker_id)
        if broker is None or not broker.is_active or member.broker_epoch not in (ANY_EPOCH, broker.broker_epoch):
            raise BrokerError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {member.broker_id} is not in service.")

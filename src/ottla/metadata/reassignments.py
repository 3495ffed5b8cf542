"""Partitions move to other replicas: asked for by a client or by the balancer, one way for both.

A move is two records, and what is between them is in the image, so a new controller goes on where the old one was:

1. The partition gets its new replicas besides the old ones: `adding_replicas` are those that come, `removing_replicas`
   those that will go. Followers copy; nobody loses anything yet, and who leads goes on leading.
2. Once all that shall stay are in sync, the others are dropped, and if the leader was one of them, the first of the
   new replicas leads. What drops a replica starts a new leader epoch, so that none that is gone can be counted again.

A move that has nothing to copy is both at once. One that is stopped goes back to what was there before it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.deciding import Deciding, NewRecords
from ottla.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.new_partitions import require_usable
from ottla.metadata.records import MetadataRecord
from ottla.metadata.state import UNCHANGED_LEADER
from ottla.metadata.topic_configs import topic_log_config
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.messages.metadata_records import PartitionChangeRecord
from ottla.protocol.primitives import NO_UUID
from ottla.replicated import Result
from ottla.types import TopicId

RECOVERING = 1


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def target_of(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas as they will be once the move that is under way, if any, is done."""
    return without(partition.replicas, partition.removing_replicas) if is_moving(partition) else partition.replicas


def without(replicas: Iterable[int], dropped: Iterable[int]) -> tuple[int, ...]:
    gone = frozenset(dropped)
    return tuple(replica for replica in replicas if replica not in gone)


# One partition


def moved(image: MetadataImage, topic_id: TopicId, index: int, target: Sequence[int]) -> PartitionChangeRecord | None:
    """The record that starts to move a partition to `target`, whatever move was under way; None if it is there.

    What an earlier move was adding and this one does not want is dropped at once if it has not caught up; otherwise it
    stays until this move is done, since it may be the only one that has everything.
    """
    partition = _partition(image, topic_id, index)
    before = without(partition.replicas, partition.adding_replicas)
    whole = {*partition.isr, *partition.eligible_leader_replicas}
    kept = [replica for replica in partition.adding_replicas if replica in whole]
    removing = without((*before, *kept), target)
    change = _Change(
        partition,
        replicas=(*target, *removing),
        adding=without(target, before),
        removing=removing,
        isr=partition.isr,
    )
    return change.completed(image.brokers).record(topic_id, index, image.brokers)


def completed(
    brokers: Mapping[int, BrokerImage], topic_id: TopicId, index: int, partition: PartitionImage
) -> PartitionChangeRecord | None:
    """The record that ends a move, if all that shall stay are in sync and one of them can lead."""
    if not is_moving(partition):
        return None
    change = _Change.of(partition)
    after = change.completed(brokers)
    return None if after is change else after.record(topic_id, index, brokers)


def cancelled(image: MetadataImage, topic_id: TopicId, index: int, *, unclean: bool) -> PartitionChangeRecord | None:
    """The record that takes a move back. `unclean`: a replica that is not in sync may lead if no other is left."""
    partition = _partition(image, topic_id, index)
    if not is_moving(partition):
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.isr, partition.adding_replicas)
    if not isr and not unclean:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The reassignment can't be taken back: only replicas that it added are in sync.",
        )
    change = _Change(partition, replicas=replicas, adding=(), removing=(), isr=isr or replicas[:1])
    return change.record(topic_id, index, image.brokers, recovering=not isr)


def led_by(
    image: MetadataImage, topic_id: TopicId, index: int, leader: int, replicas: Sequence[int]
) -> PartitionChangeRecord:
    """The record that gives leadership to an in-sync replica and puts `replicas` into that order of preference."""
    partition = _partition(image, topic_id, index)
    same = tuple(replicas) == partition.replicas
    return PartitionChangeRecord(
        topic_id=topic_id,
        partition_id=index,
        leader=leader,
        replicas=None if same else replicas,
        directories=_directories(partition, replicas),
    )


def _partition(image: MetadataImage, topic_id: TopicId, index: int) -> PartitionImage:
    return image.topics_by_id[topic_id].partitions[index]


class _Change:
    """A partition as it is and as it shall be."""

    __slots__ = ("adding", "isr", "partition", "removing", "replicas")

    def __init__(
        self,
        partition: PartitionImage,
        *,
        replicas: tuple[int, ...],
        adding: tuple[int, ...],
        removing: tuple[int, ...],
        isr: tuple[int, ...],
    ) -> None:
        self.partition = partition
        self.replicas = replicas
        self.adding = adding
        self.removing = removing
        self.isr = tuple(replica for replica in isr if replica in replicas)

    @classmethod
    def of(cls, partition: PartitionImage) -> "_Change":
        """No change yet."""
        return cls(
            partition,
            replicas=partition.replicas,
            adding=partition.adding_replicas,
            removing=partition.removing_replicas,
            isr=partition.isr,
        )

    def completed(self, brokers: Mapping[int, BrokerImage]) -> "_Change":
        """With the move done if it can be: everybody who shall stay is in sync, and one of them can lead."""
        staying = without(self.replicas, self.removing)
        if not (self.adding or self.removing) or not set(staying) <= set(self.isr):
            return self
        done = _Change(self.partition, replicas=staying, adding=(), removing=(), isr=self.isr)
        return self if done.leader(brokers) == NO_LEADER else done

    @property
    def drops_any(self) -> bool:
        return not set(self.partition.replicas) <= set(self.replicas)

    def leader(self, brokers: Mapping[int, BrokerImage]) -> int:
        """Who leads goes on; where it is dropped, the first of the others that is in sync and in service."""
        present = self.partition.leader
        if present in self.replicas or (present == NO_LEADER and not self.drops_any):
            return present
        able = (replica for replica in self.replicas if replica in self.isr and _is_active(brokers, replica))
        return next(able, NO_LEADER)

    def record(
        self, topic_id: TopicId, index: int, brokers: Mapping[int, BrokerImage], *, recovering: bool = False
    ) -> PartitionChangeRecord | None:
        """What differs; None if nothing does."""
        before, leader = self.partition, self.leader(brokers)
        change = PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=index,
            isr=_new(self.isr, before.isr),
            leader=leader if self.drops_any or leader != before.leader else UNCHANGED_LEADER,
            replicas=_new(self.replicas, before.replicas),
            adding_replicas=_new(self.adding, before.adding_replicas),
            removing_replicas=_new(self.removing, before.removing_replicas),
            leader_recovery_state=RECOVERING if recovering else -1,
            directories=_directories(before, self.replicas),
            eligible_leader_replicas=_still(before.eligible_leader_replicas, self.replicas),
            last_known_elr=_still(before.last_known_elr, self.replicas),
        )
        return None if change == PartitionChangeRecord(topic_id=topic_id, partition_id=index) else change


def _is_active(brokers: Mapping[int, BrokerImage], broker_id: int) -> bool:
    broker = brokers.get(broker_id)
    return broker is not None and broker.is_active


def _new(after: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if after == before else after


def _still(before: tuple[int, ...], replicas: tuple[int, ...]) -> tuple[int, ...] | None:
    return _new(tuple(replica for replica in before if replica in replicas), before)


def _directories(partition: PartitionImage, replicas: Sequence[int]) -> Sequence[bytes] | None:
    """Where the log of each replica lies, as far as that is known; None where it is of none, or nothing moves."""
    if not partition.directories or tuple(replicas) == partition.replicas:
        return None
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return [known.get(replica, NO_UUID) for replica in replicas]


# Requests


def alter_partition_reassignments(
    deciding: Deciding, request: AlterPartitionReassignmentsRequest
) -> Result[MetadataRecord, AlterPartitionReassignmentsResponse]:
    """Start moves, or stop them (null replicas); each partition gets an answer of its own."""
    new = NewRecords()
    granted: set[tuple[TopicId, int]] = set()
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[_answer(deciding, request, topic, partition, new, granted) for partition in topic.partitions],
        )
        for topic in request.topics
    ]
    return Result(
        records=new.records,
        response=AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=responses,
        ),
    )


def _answer(
    deciding: Deciding,
    request: AlterPartitionReassignmentsRequest,
    topic: ReassignableTopic,
    wanted: ReassignablePartition,
    new: NewRecords,
    granted: set[tuple[TopicId, int]],
) -> ReassignablePartitionResponse:
    index = wanted.partition_index
    try:
        found = _find(deciding.image, topic.name, index)
        if (found.topic_id, index) in granted:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "The partition is named more than once in this request.")
        new.require_room(1)
        record = _decide(deciding, request, found, wanted)
    except BrokerError as error:
        return ReassignablePartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message or None
        )
    granted.add((found.topic_id, index))
    new.add([] if record is None else [record])
    return ReassignablePartitionResponse(partition_index=index, error_message=None)


def _find(image: MetadataImage, name: str, index: int) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    if index not in topic.partitions:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' has no partition {index}.")
    return topic


def _decide(
    deciding: Deciding,
    request: AlterPartitionReassignmentsRequest,
    topic: TopicImage,
    wanted: ReassignablePartition,
) -> PartitionChangeRecord | None:
    image, index = deciding.image, wanted.partition_index
    if wanted.replicas is None:
        unclean = topic_log_config(deciding.config, image, topic.name).unclean_leader_election_enable
        return cancelled(image, topic.topic_id, index, unclean=unclean)
    require_usable(wanted.replicas, image, expected_count=None)
    present = len(target_of(topic.partitions[index]))
    if not request.allow_replication_factor_change and len(wanted.replicas) != present:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(wanted.replicas)}.",
        )
    return moved(image, topic.topic_id, index, tuple(wanted.replicas))


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """What is on its way: of all topics, or of those that are named and exist."""
    if request.topics is None:
        wanted = [(topic, iter(topic.partitions)) for topic in image.topics.values()]
    else:
        named = [(image.topics.get(topic.name), iter(topic.partition_indexes)) for topic in request.topics]
        wanted = [(topic, indexes) for topic, indexes in named if topic is not None]
    answers = [
        OngoingTopicReassignment(name=topic.name, partitions=list(_ongoing(topic, indexes)))
        for topic, indexes in wanted
    ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[answer for answer in answers if answer.partitions]
    )


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> Iterator[OngoingPartitionReassignment]:
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and is_moving(partition):
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )

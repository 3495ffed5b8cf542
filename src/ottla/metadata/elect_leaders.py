"""Elections that somebody asks for: back to the preferred leaders, or any leader rather than none."""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.deciding import Deciding, NewRecords
from ottla.metadata.image import NO_LEADER, PartitionImage, TopicImage
from ottla.metadata.leadership import Ballot
from ottla.metadata.partition_change import Election
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ottla.replicated import Result


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(deciding: Deciding, request: ElectLeadersRequest) -> Result[MetadataRecord, ElectLeadersResponse]:
    """Of the partitions that are named; or of all, where only those are answered for that need a leader."""
    if request.election_type not in tuple(ElectionType):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    elections = _Elections(deciding, ElectionType(request.election_type))
    if request.topic_partitions is None:
        results = list(elections.of_all())
    else:
        results = [elections.of_topic(topic) for topic in request.topic_partitions]
    return Result(
        records=elections.new.records,
        response=ElectLeadersResponse(replica_election_results=results),
    )


class _Elections:
    """One request."""

    def __init__(self, deciding: Deciding, type_: ElectionType) -> None:
        self._image = deciding.image
        self._type = type_
        self._ballot = Ballot(deciding)
        self._elected: set[tuple[str, int]] = set()
        self.new = NewRecords()

    def of_all(self) -> Iterator[ReplicaElectionResult]:
        for topic in self._image.topics.values():
            needing = [index for index, partition in topic.partitions.items() if self._is_needed(partition)]
            if needing:
                yield self.of_topic(TopicPartitions(topic=topic.name, partitions=needing))

    def of_topic(self, wanted: TopicPartitions) -> ReplicaElectionResult:
        return ReplicaElectionResult(topic=wanted.topic, partition_result=self._results(wanted))

    def _results(self, wanted: TopicPartitions) -> Sequence[PartitionResult]:
        return [self._result(wanted.topic, index) for index in wanted.partitions]

    def _result(self, name: str, index: int) -> PartitionResult:
        try:
            self._elect(self._find(name, index), index)
        except BrokerError as error:
            return PartitionResult(
                partition_id=index, error_code=error.code, error_message=error.message or error.code.name
            )
        return PartitionResult(partition_id=index, error_message=None)

    def _find(self, name: str, index: int) -> TopicImage:
        topic = self._image.topics.get(name)
        if topic is None or index not in topic.partitions:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
        return topic

    def _elect(self, topic: TopicImage, index: int) -> None:
        if (topic.name, index) in self._elected or not self._is_needed(topic.partitions[index]):
            raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has its leader.")
        self.new.require_room(1)
        preferred = self._type is ElectionType.PREFERRED
        election = Election.PREFERRED if preferred else Election.UNCLEAN
        record = self._ballot.change(topic.topic_id, index, election=election)
        if record is None:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            raise BrokerError(code, "No replica that may lead is in service.")
        self._elected.add((topic.name, index))
        self.new.add([record])

    def _is_needed(self, partition: PartitionImage) -> bool:
        if self._type is ElectionType.PREFERRED:
            return partition.leader != partition.replicas[0]
        return partition.leader == NO_LEADER

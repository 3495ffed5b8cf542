"""What a cluster says of itself, gathered from plain Kafka requests to any of its brokers.

A broker that is away can't be asked what only it knows (the sizes of its logs): that is missing then, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.cli.failures import CommandError
from ottla.cli.wire import ask, error_text
from ottla.config.cluster import Placement
from ottla.errors import ErrorCode
from ottla.metadata.balancer_answers import image_of
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.metadata.placement import PLACEMENT
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from ottla.protocol.schema import Request, Response

NOBODY = -1
Answer = TypeVar("Answer", bound=Response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a broker keeps, and what room it has."""

    held_bytes: int
    usable_bytes: int


class ClusterView:
    """Asks when something is first needed, and only once: one view is one moment, more or less."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.cluster: DescribeClusterResponse = granted(
            ask(bootstrap, DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
        )
        self.metadata: MetadataResponse = ask(bootstrap, MetadataRequest(topics=None), MetadataResponse)

    @property
    def brokers(self) -> Sequence[DescribeClusterBroker]:
        return sorted(self.cluster.brokers, key=lambda broker: broker.broker_id)

    def broker(self, broker_id: int) -> DescribeClusterBroker | None:
        return next((broker for broker in self.cluster.brokers if broker.broker_id == broker_id), None)

    def partitions(self) -> Iterator[tuple[str, MetadataResponsePartition]]:
        for topic in self.metadata.topics:
            for partition in topic.partitions:
                yield topic.name or "", partition

    def holds(self, broker_id: int) -> int:
        """How many partitions have a replica on this broker."""
        return sum(broker_id in partition.replica_nodes for _, partition in self.partitions())

    def leads(self, broker_id: int) -> int:
        return sum(partition.leader_id == broker_id for _, partition in self.partitions())

    def quorum(self) -> ResponsePartitionData:
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        answer = granted(ask(self._bootstrap, DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse))
        partition = answer.topics[0].partitions[0]
        if partition.error_code:
            raise CommandError(error_text(partition.error_code, partition.error_message))
        return partition

    def reassignments(self) -> ListPartitionReassignmentsResponse:
        return granted(ask(self._bootstrap, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse))

    def disk(self, broker: DescribeClusterBroker) -> Disk | None:
        """None of a broker that does not answer."""
        answer = self._of(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        if answer is None or answer.error_code:
            return None
        sizes = (p.partition_size for found in answer.results for topic in found.topics for p in topic.partitions)
        return Disk(held_bytes=sum(sizes), usable_bytes=sum(max(0, found.usable_bytes) for found in answer.results))

    def placement(self, broker: DescribeClusterBroker) -> str | None:
        """Whether the broker is being filled or emptied; None if it does not answer or has no such mark."""
        resource = DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(broker.broker_id), configuration_keys=[PLACEMENT]
        )
        answer = self._of(broker, DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
        values = [] if answer is None else [config.value for found in answer.results for config in found.configs]
        return next((value for value in values if value and value != Placement.OPEN), None)

    def image(self, placements: Mapping[int, str] | None = None) -> MetadataImage:
        """For plans. `placements` overrule what the brokers say of themselves."""
        said = {broker.broker_id: self.placement(broker) for broker in self.brokers}
        marks = {broker_id: mark for broker_id, mark in said.items() if mark is not None} | dict(placements or {})
        return image_of(self.metadata, self.cluster, self.reassignments(), marks)

    def _of(self, broker: DescribeClusterBroker, request: Request, answer: type[Answer]) -> Answer | None:
        if broker.is_fenced:
            return None
        try:
            return ask(f"{broker.host}:{broker.port}", request, answer)
        except CommandError:
            return None


def lag(quorum: ResponsePartitionData, replica: ReplicaState) -> int | None:
    """How many offsets of the metadata log a node is behind; None if it was not heard of."""
    if replica.log_end_offset < 0:
        return None
    ends = [voter.log_end_offset for voter in quorum.current_voters if voter.replica_id == quorum.leader_id]
    return max(0, max(ends, default=quorum.high_watermark) - replica.log_end_offset)


def granted(answer: Answer) -> Answer:
    """The answer, unless it is a refusal."""
    refused: Any = answer
    if refused.error_code != ErrorCode.NONE:
        raise CommandError(error_text(refused.error_code, getattr(refused, "error_message", None)))
    return answer

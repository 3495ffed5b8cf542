"""The cluster as a whole: how it is, what should be elsewhere, and bringing it there.

Everything is gathered from plain Kafka requests, so that it can be asked of any node, and of any Kafka cluster. A call
that changes something starts it and comes back; calling it again shows how far it is, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ottla.config.cluster import Placement
from ottla.errors import BrokerError, ErrorCode
from ottla.http.cluster import Cluster
from ottla.http.errors import CONFLICT, NOT_FOUND, HttpError, require
from ottla.http.topics import Topics
from ottla.metadata.balancer_answers import image_of
from ottla.metadata.balancer_plan import Move, Plan, Scope, plan_moves
from ottla.metadata.image import ResourceType
from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.metadata.placement import PLACEMENT
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

SET = 0


class View:
    """One moment of the cluster, more or less."""

    def __init__(
        self,
        cluster: DescribeClusterResponse,
        metadata: MetadataResponse,
        moving: ListPartitionReassignmentsResponse,
        placements: Mapping[int, str],
    ) -> None:
        self.cluster = cluster
        self.metadata = metadata
        self.moving = moving
        self.placements = placements
        self.partitions = [partition for topic in metadata.topics for partition in topic.partitions]

    @property
    def brokers(self) -> list[DescribeClusterBroker]:
        return sorted(self.cluster.brokers, key=lambda broker: broker.broker_id)

    def holds(self, broker_id: int) -> int:
        return sum(broker_id in partition.replica_nodes for partition in self.partitions)

    def plan(self, scope: Scope, placements: Mapping[int, str] | None = None) -> Plan:
        marks = {**self.placements, **(placements or {})}
        return plan_moves(image_of(self.metadata, self.cluster, self.moving, marks), scope=scope)


class Admin:
    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster = cluster
        self._topics = topics

    async def view(self) -> View:
        cluster = await self._cluster.ask(DescribeClusterRequest(include_fenced_brokers=True))
        require(cluster.error_code, cluster.error_message)
        moving = await self._cluster.ask(ListPartitionReassignmentsRequest(timeout_ms=self._cluster.timeout_ms))
        require(moving.error_code, moving.error_message)
        return View(cluster, await self._topics.metadata(None), moving, await self._placements(cluster))

    async def _placements(self, cluster: DescribeClusterResponse) -> dict[int, str]:
        """Brokers that are being filled or emptied; those that answer."""
        found: dict[int, str] = {}
        for broker in cluster.brokers:
            resource = DescribeConfigsResource(
                resource_type=ResourceType.BROKER, resource_name=str(broker.broker_id), configuration_keys=[PLACEMENT]
            )
            request = DescribeConfigsRequest(resources=[resource])
            answers = {} if broker.is_fenced else await self._cluster.everywhere(request, [broker.broker_id])
            for answer in answers.values():
                for mark in (config.value for result in answer.results for config in result.configs):
                    if mark and mark != Placement.OPEN:
                        found[broker.broker_id] = mark
        return found

    async def status(self) -> dict[str, Any]:
        view, quorum = await self.view(), await self.quorum()
        running = [broker.broker_id for broker in view.brokers if not broker.is_fenced]
        disks = await self._cluster.everywhere(DescribeLogDirsRequest(topics=None), running)
        controller = view.cluster.controller_id
        return {
            "cluster_id": view.cluster.cluster_id,
            "controller": None if controller < 0 else controller,
            "quorum": None if quorum is None else _quorum(quorum),
            "topics": len(view.metadata.topics),
            "partitions": len(view.partitions),
            "under_replicated": sum(len(p.isr_nodes) < len(p.replica_nodes) for p in view.partitions),
            "offline": sum(p.leader_id < 0 for p in view.partitions),
            "moving": sum(len(topic.partitions) for topic in view.moving.topics),
            "brokers": [
                {
                    "id": broker.broker_id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "state": "fenced" if broker.is_fenced else view.placements.get(broker.broker_id, "in service"),
                    "leads": sum(p.leader_id == broker.broker_id for p in view.partitions),
                    "replicas": view.holds(broker.broker_id),
                    "in_sync": sum(broker.broker_id in p.isr_nodes for p in view.partitions),
                    "held_bytes": _held(disks.get(broker.broker_id)),
                    "usable_bytes": _usable(disks.get(broker.broker_id)),
                }
                for broker in view.brokers
            ],
        }

    async def quorum(self) -> ResponsePartitionData | None:
        """None of a cluster that has none, or while it has no leader."""
        topic = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        try:
            answer = await self._cluster.ask(DescribeQuorumRequest(topics=[topic]))
        except BrokerError:
            return None
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            return None
        found: ResponsePartitionData = answer.topics[0].partitions[0]
        return found

    # Moving

    async def plan(self) -> dict[str, Any]:
        return _told((await self.view()).plan(Scope.ALL))

    async def rebalance(self, at_once: int) -> dict[str, Any]:
        """Start what is planned, up to so many at once, and let preferred replicas lead."""
        view = await self.view()
        plan = view.plan(Scope.ALL)
        under_way = sum(len(topic.partitions) for topic in view.moving.topics)
        started = plan.moves[: max(0, at_once - under_way)]
        if started:
            await self._start(started)
        answer = await self._cluster.ask(
            ElectLeadersRequest(topic_partitions=None, timeout_ms=self._cluster.timeout_ms)
        )
        elected = sum(
            not each.error_code for found in answer.replica_election_results for each in found.partition_result
        )
        return {
            "started": [_move(move) for move in started],
            "under_way": under_way + len(started),
            "left": len(plan.moves) - len(started),
            "elected": elected,
            "blocked": _told(plan)["blocked"],
        }

    async def _start(self, moves: Sequence[Move]) -> None:
        by_topic = sorted(moves, key=lambda move: move.topic)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._cluster.timeout_ms,
            topics=[
                ReassignableTopic(
                    name=name,
                    partitions=[ReassignablePartition(partition_index=m.partition, replicas=m.replicas) for m in some],
                )
                for name, some in groupby(by_topic, key=lambda move: move.topic)
            ],
        )
        answer = await self._cluster.ask(request)
        require(answer.error_code, answer.error_message)
        for topic in answer.responses:
            for partition in topic.partitions:
                require(partition.error_code, partition.error_message)

    async def decommission(self, broker_id: int) -> dict[str, Any]:
        """Mark the broker, so that the controller empties it; when it is empty and stopped, remove it for good."""
        view = await self.view()
        broker = next((each for each in view.brokers if each.broker_id == broker_id), None)
        if broker is None:
            raise HttpError(
                NOT_FOUND, "unknown_broker", f"There is no broker {broker_id}.", kafka_error="BROKER_ID_NOT_REGISTERED"
            )
        if len(view.brokers) == 1:
            raise HttpError(CONFLICT, "only_broker", f"Broker {broker_id} is the only one.")
        await self._mark(broker_id, Placement.DRAINING)
        left = view.holds(broker_id)
        blocked = [
            each
            for each in _told(view.plan(Scope.AUTOMATIC, {broker_id: Placement.DRAINING.value}))["blocked"]
            if each["broker"] == broker_id
        ]
        if left:
            return {"broker": broker_id, "state": "draining", "replicas_left": left, "blocked": blocked}
        await self._end_votes(view, broker_id)
        if not broker.is_fenced:
            return {"broker": broker_id, "state": "empty", "replicas_left": 0, "blocked": []}
        gone = await self._cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))
        require(gone.error_code, gone.error_message)
        return {"broker": broker_id, "state": "removed", "replicas_left": 0, "blocked": []}

    async def _mark(self, broker_id: int, placement: Placement) -> None:
        config = AlterableConfig(name=PLACEMENT, config_operation=SET, value=placement.value)
        resource = AlterConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(broker_id), configs=[config]
        )
        answer = await self._cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        for response in answer.responses:
            require(response.error_code, response.error_message)

    async def _end_votes(self, view: View, broker_id: int) -> None:
        quorum = await self.quorum()
        for voter in () if quorum is None else quorum.current_voters:
            if voter.replica_id == broker_id:
                request = RemoveRaftVoterRequest(
                    cluster_id=view.cluster.cluster_id,
                    voter_id=broker_id,
                    voter_directory_id=voter.replica_directory_id,
                )
                answer = await self._cluster.ask(request)
                if answer.error_code != ErrorCode.VOTER_NOT_FOUND:
                    require(answer.error_code, answer.error_message)


def _quorum(found: ResponsePartitionData) -> dict[str, Any]:
    return {
        "leader": found.leader_id,
        "term": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": [voter.replica_id for voter in found.current_voters],
        "observers": [observer.replica_id for observer in found.observers],
    }


def _held(answer: DescribeLogDirsResponse | None) -> int | None:
    if answer is None or answer.error_code:
        return None
    return sum(p.partition_size for found in answer.results for topic in found.topics for p in topic.partitions)


def _usable(answer: DescribeLogDirsResponse | None) -> int | None:
    if answer is None or answer.error_code:
        return None
    return sum(max(0, found.usable_bytes) for found in answer.results)


def _told(plan: Plan) -> dict[str, Any]:
    return {
        "moves": [_move(move) for move in plan.moves],
        "blocked": [
            {"topic": each.topic, "partition": each.partition, "broker": each.broker_id, "reason": each.reason}
            for each in plan.blocked
        ],
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "before": list(move.before),
        "replicas": list(move.replicas),
        "reason": move.reason,
    }

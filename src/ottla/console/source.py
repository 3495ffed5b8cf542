"""What the pages ask of the cluster: Kafka requests through the objects that serve the HTTP API, as values.

Where one broker does not answer, what only it knows is missing, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.console.lag import GroupLook, PartitionLook
from ottla.console.snapshot import BrokerNow, ClusterNow, PartitionNow, Quorum, TopicNow
from ottla.errors import BrokerError, OttlaError
from ottla.http.admin import View
from ottla.http.api import Api
from ottla.http.consume import CONSUMER, EARLIEST, LATEST
from ottla.http.errors import HttpError, of_broker, require
from ottla.metadata.image import ResourceType
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.protocol.messages.describe_quorum import ReplicaState, ResponsePartitionData
from ottla.protocol.messages.fetch import READ_COMMITTED
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataResponsePartition
from ottla.types import TopicPartition

TOPIC_CONFIG = 1
"""The source of a config that was set for the topic itself."""
Sizes = dict[int, dict[TopicPartition, int]]


def now_ms() -> int:
    return int(time.time() * 1000)


def sentence(error: BaseException) -> str:
    """What a person is told of a failure."""
    if isinstance(error, BrokerError):
        return of_broker(error).message
    if isinstance(error, HttpError):
        return error.message
    return str(error) or type(error).__name__


EXPECTED = (OttlaError, HttpError, OSError, TimeoutError)
"""Failures of the cluster or of the request: told, and not a defect of the console."""


class Config:
    __slots__ = ("is_own", "name", "value")

    def __init__(self, name: str, value: str | None, *, is_own: bool) -> None:
        self.name = name
        self.value = value
        self.is_own = is_own
        """Set for this topic, and not a default."""


class Source:
    def __init__(self, api: Api) -> None:
        self.api = api

    # The cluster

    async def cluster(self) -> ClusterNow:
        view, quorum = await asyncio.gather(self.api.admin.view(), self.api.admin.quorum())
        running = [broker.broker_id for broker in view.brokers if not broker.is_fenced]
        disks, starts, ends = await asyncio.gather(
            self.api.cluster.everywhere(DescribeLogDirsRequest(topics=None), running),
            self.offsets(_led(view), EARLIEST),
            self.offsets(_led(view), LATEST),
        )
        sizes = {broker_id: _sizes(answer) for broker_id, answer in disks.items() if not answer.error_code}
        controller = view.cluster.controller_id
        return ClusterNow(
            at_ms=now_ms(),
            cluster_id=view.cluster.cluster_id,
            controller=None if controller < 0 else controller,
            quorum=None if quorum is None else _quorum(quorum),
            brokers=tuple(_brokers(view, quorum, disks)),
            topics=tuple(_topics(view, sizes, starts, ends)),
        )

    async def offsets(self, wanted: Iterable[tuple[int, TopicPartition]], timestamp: int) -> dict[TopicPartition, int]:
        """One request to each leader; of those that answer."""
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        for leader, at in wanted:
            asked = ListOffsetsPartition(partition_index=at.partition, timestamp=timestamp)
            by_leader.setdefault(leader, {}).setdefault(at.topic, []).append(asked)
        answers = await asyncio.gather(*(self._offsets_at(*each) for each in by_leader.items()), return_exceptions=True)
        found: dict[TopicPartition, int] = {}
        for answer in answers:
            if isinstance(answer, dict):
                found |= answer
            elif not isinstance(answer, EXPECTED):
                raise answer
        return found

    async def _offsets_at(
        self, leader: int, topics: Mapping[str, list[ListOffsetsPartition]]
    ) -> dict[TopicPartition, int]:
        cluster = self.api.cluster
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=READ_COMMITTED,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=cluster.timeout_ms,
        )
        await cluster.ways.meet(leader)
        answer = await cluster.ask(request, node_id=leader)
        return {
            TopicPartition(topic.name, each.partition_index): each.offset
            for topic in answer.topics
            for each in topic.partitions
            if not each.error_code and each.offset >= 0
        }

    async def plan(self) -> dict[str, Any]:
        return await self.api.admin.plan()

    # Topics

    async def configs(self, topic: str) -> list[Config]:
        """Those set for the topic first."""
        resource = DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None
        )
        answer = (await self.api.cluster.ask(DescribeConfigsRequest(resources=[resource]))).results[0]
        require(answer.error_code, answer.error_message)
        found = [
            Config(
                each.name,
                None if each.is_sensitive else each.value,
                is_own=each.config_source == TOPIC_CONFIG,
            )
            for each in answer.configs
        ]
        return sorted(found, key=lambda each: (not each.is_own, each.name))

    # Groups

    async def groups(self) -> list[dict[str, Any]]:
        return await self.api.list_groups()

    async def group(self, group: str) -> tuple[GroupLook, dict[str, Any]]:
        told = await self.api.groups.describe(group)
        return look_of(told, now_ms()), told


def look_of(told: Mapping[str, Any], at_ms: int) -> GroupLook:
    return GroupLook(
        at_ms=at_ms,
        state=told["state"],
        members={each["member_id"]: member_name(each) for each in told["members"]},
        partitions={TopicPartition(each["topic"], each["partition"]): _look(each) for each in told["partitions"]},
    )


def member_name(member: Mapping[str, Any]) -> str:
    host = str(member["host"] or "").removeprefix("/")
    name = member["consumer_id"] or member["client_id"] or member["member_id"]
    return f"{name} ({host})" if host else str(name)


def _look(told: Mapping[str, Any]) -> PartitionLook:
    committed, records = told["committed_offset"], told["lag"]["records"]
    return PartitionLook(
        end=None if committed is None or records is None else committed + records,
        committed=committed,
        records=records,
        seconds=told["lag"]["seconds"],
        member=told["member_id"],
    )


def _led(view: View) -> list[tuple[int, TopicPartition]]:
    return [
        (each.leader_id, TopicPartition(topic.name or "", each.partition_index))
        for topic in view.metadata.topics
        for each in topic.partitions
        if each.leader_id >= 0
    ]


def _sizes(answer: DescribeLogDirsResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for directory in answer.results
        for topic in directory.topics
        for each in topic.partitions
    }


def _quorum(told: ResponsePartitionData) -> Quorum:
    return Quorum(
        leader=told.leader_id,
        term=told.leader_epoch,
        high_watermark=told.high_watermark,
        voters=tuple(sorted(voter.replica_id for voter in told.current_voters)),
        observers=tuple(sorted(observer.replica_id for observer in told.observers)),
    )


def _brokers(
    view: View, quorum: ResponsePartitionData | None, disks: Mapping[int, DescribeLogDirsResponse]
) -> Iterable[BrokerNow]:
    for broker in view.brokers:
        disk = disks.get(broker.broker_id)
        known = disk is not None and not disk.error_code
        yield BrokerNow(
            broker_id=broker.broker_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            state="fenced" if broker.is_fenced else view.placements.get(broker.broker_id, "in service"),
            role=_role(broker.broker_id, view.cluster.controller_id, quorum),
            held_bytes=sum(_sizes(disk).values()) if disk is not None and known else None,
            usable_bytes=sum(max(0, each.usable_bytes) for each in disk.results)
            if disk is not None and known
            else None,
            metadata_lag=None if quorum is None else _metadata_lag(broker.broker_id, quorum),
        )


def _role(broker_id: int, controller: int, quorum: ResponsePartitionData | None) -> str:
    if quorum is None:
        return "controller" if broker_id == controller else ""
    if broker_id == quorum.leader_id:
        return "controller"
    if any(voter.replica_id == broker_id for voter in quorum.current_voters):
        return "voter"
    return "observer" if any(each.replica_id == broker_id for each in quorum.observers) else ""


def _metadata_lag(broker_id: int, quorum: ResponsePartitionData) -> int | None:
    replicas: list[ReplicaState] = [*quorum.current_voters, *quorum.observers]
    ends = {each.replica_id: each.log_end_offset for each in replicas if each.log_end_offset >= 0}
    if broker_id not in ends:
        return None
    return max(0, ends.get(quorum.leader_id, quorum.high_watermark) - ends[broker_id])


def _topics(
    view: View, sizes: Sizes, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterable[TopicNow]:
    moving = {
        TopicPartition(topic.name, each.partition_index) for topic in view.moving.topics for each in topic.partitions
    }
    for topic in sorted(view.metadata.topics, key=lambda each: each.name or ""):
        if topic.error_code and not topic.partitions:
            continue
        name = topic.name or ""
        yield TopicNow(
            name=name,
            is_internal=topic.is_internal or name.startswith("__"),
            partitions=tuple(
                _partition(TopicPartition(name, each.partition_index), each, sizes, starts, ends, moving)
                for each in sorted(topic.partitions, key=lambda each: each.partition_index)
            ),
        )


def _partition(
    at: TopicPartition,
    told: MetadataResponsePartition,
    sizes: Sizes,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    moving: set[TopicPartition],
) -> PartitionNow:
    return PartitionNow(
        topic=at.topic,
        index=at.partition,
        leader=None if told.leader_id < 0 else told.leader_id,
        replicas=tuple(told.replica_nodes),
        in_sync=tuple(told.isr_nodes),
        is_moving=at in moving,
        start=starts.get(at),
        end=ends.get(at),
        sizes={broker_id: held[at] for broker_id, held in sizes.items() if at in held},
    )

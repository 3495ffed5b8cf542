"""Topics: made, shown and deleted, by the requests that admin clients send."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.http.cluster import Cluster
from ottla.http.consume import EARLIEST, LATEST, Consuming
from ottla.http.errors import bad_request, require
from ottla.http.produce import unknown_topic
from ottla.metadata.image import ResourceType
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

DEFAULT = -1
"""Number of partitions or replicas: what the cluster has as its default."""
INT32_MAX = 2**31 - 1


class Topics:
    def __init__(self, cluster: Cluster, consuming: Consuming) -> None:
        self._cluster = cluster
        self._consuming = consuming

    async def create(
        self, topic: str, *, partitions: int | None, replicas: int | None, configs: Mapping[str, str | None]
    ) -> dict[str, Any]:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=DEFAULT if partitions is None else partitions,
            replication_factor=DEFAULT if replicas is None else replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=self._cluster.timeout_ms)
        made = (await self._cluster.ask(request)).topics[0]
        require(made.error_code, made.error_message)
        await self._cluster.ways.refresh(topic)
        return {
            "topic": topic,
            "topic_id": _id(made.topic_id),
            "num_partitions": made.num_partitions,
            "replication_factor": made.replication_factor,
            "configs": _configs(made.configs or ()),
        }

    async def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=self._cluster.timeout_ms
        )
        gone = (await self._cluster.ask(request)).responses[0]
        if gone.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise unknown_topic(topic)
        require(gone.error_code, gone.error_message)
        await self._cluster.ways.refresh(topic)

    async def all(self) -> list[dict[str, Any]]:
        known = await self.metadata(None)
        return [
            {
                "topic": topic.name,
                "topic_id": _id(topic.topic_id),
                "internal": topic.is_internal,
                "num_partitions": len(topic.partitions),
                "replication_factor": max((len(each.replica_nodes) for each in topic.partitions), default=0),
                "under_replicated": sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions),
            }
            for topic in sorted(known.topics, key=lambda each: each.name or "")
            if not topic.error_code
        ]

    async def describe(self, topic: str) -> dict[str, Any]:
        found = await self._found(topic)
        resource = DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None
        )
        configs = (await self._cluster.ask(DescribeConfigsRequest(resources=[resource]))).results[0]
        require(configs.error_code, configs.error_message)
        return {
            "topic": topic,
            "topic_id": _id(found.topic_id),
            "internal": found.is_internal,
            "partitions": [_placed(each) for each in sorted(found.partitions, key=lambda each: each.partition_index)],
            "configs": _configs(configs.configs),
        }

    async def partition(self, topic: str, partition: int) -> dict[str, Any]:
        """Who holds it, from where to where it goes, and what it takes up on each disk."""
        found = await self._found(topic)
        placed = next((each for each in found.partitions if each.partition_index == partition), None)
        if placed is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition} of {topic}.")
        earliest = await self._consuming.offset_at(topic, partition, EARLIEST)
        latest = await self._consuming.fetch(topic, partition, earliest, 1, 0)
        sizes = await self._cluster.everywhere(
            DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[partition])]),
            placed.replica_nodes,
        )
        return {
            "topic": topic,
            **_placed(placed),
            "log_start_offset": earliest,
            "high_watermark": latest.high_watermark,
            "last_stable_offset": await self._consuming.offset_at(topic, partition, LATEST),
            "size_bytes": {node_id: _size(answer) for node_id, answer in sorted(sizes.items())},
        }

    async def metadata(self, topics: list[str] | None) -> MetadataResponse:
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = await self._cluster.ask(
            MetadataRequest(topics=named, allow_auto_topic_creation=False)
        )
        return answer

    async def _found(self, topic: str) -> MetadataResponseTopic:
        if not topic:
            raise bad_request("The topic has no name.")
        found = (await self.metadata([topic])).topics[0]
        if found.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise unknown_topic(topic)
        if found.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            require(found.error_code)
        return found


def _placed(partition: MetadataResponsePartition) -> dict[str, Any]:
    return {
        "partition": partition.partition_index,
        "leader": None if partition.leader_id < 0 else partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
    }


def _size(answer: DescribeLogDirsResponse) -> int:
    return sum(
        partition.partition_size
        for directory in answer.results
        for topic in directory.topics
        for partition in topic.partitions
    )


def _configs(configs: Any) -> dict[str, str | None]:
    return {config.name: config.value for config in configs if not config.is_sensitive}


def _id(topic_id: bytes) -> str:
    return str(uuid.UUID(bytes=bytes(topic_id)))

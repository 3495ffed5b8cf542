"""What the HTTP API can say of the node that it is part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError
from ottla.http.cluster import Cluster
from ottla.http.node_metrics import NodeMetrics

if TYPE_CHECKING:
    from ottla.http.api import Api
    from ottla.http.edge import Edge
    from ottla.runtime.node import Node


class NodeSurroundings:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._metrics = NodeMetrics(node)

    def attach(self, api: Api, edge: Edge) -> None:
        self._metrics.attach(api, edge)

    async def health(self, _: Cluster) -> dict[str, Any]:
        """It answers, so it is alive. It is ready if clients may be sent here."""
        why = self._why_not_ready()
        return {"live": True, "ready": not why, "why": why, "node_id": self._node.config.node_id}

    def _why_not_ready(self) -> list[str]:
        node, why = self._node, []
        own = node.image.brokers.get(node.config.node_id)
        if node.committer.failed is not None:
            why.append(f"The disk does not take writes: {node.committer.failed}.")
        if node.controller_id < 0:
            why.append("The cluster has no controller: topics and groups can't change.")
        if own is None:
            why.append("The node is not registered with the controller.")
        elif own.in_controlled_shutdown or node.lifecycle.is_leaving:
            why.append("The node is leaving: it hands over what it leads.")
        elif own.fenced:
            why.append("The node is fenced: the controller has not heard of it for too long, or it is still starting.")
        return why

    async def metrics(self) -> list[str]:
        return await self._metrics.collect()

    def segments(self, topic: str, partition: int) -> list[dict[str, Any]] | None:
        try:
            log = self._node.partitions.log_of(topic, partition)
        except BrokerError:
            return None
        return [{"base_offset": segment.base_offset, "size_bytes": segment.size_bytes} for segment in log.segments]

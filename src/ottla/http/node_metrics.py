"""The metrics of a node: worked out from what its parts have counted, when somebody asks.

A scrape is made in turns of the event loop that stay short: partitions are walked some at a time. Figures of single
partitions are for as many as the settings allow, in the order of their names; sums are over all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.http.process_metrics import LoopDelay, http_metrics, process_metrics
from ottla.metadata.image import NO_LEADER
from ottla.observability.metrics import Text

if TYPE_CHECKING:
    from ottla.http.api import Api
    from ottla.http.edge import Edge
    from ottla.metadata.image import PartitionImage
    from ottla.replication.readable import Readable
    from ottla.runtime.node import Node

TURN_PARTITIONS = 200


class NodeMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._delay = LoopDelay()
        self._attached: tuple[Api, Edge] | None = None

    def attach(self, api: Api, edge: Edge) -> None:
        self._attached = (api, edge)
        self._delay.start(asyncio.get_running_loop())

    async def collect(self) -> list[str]:
        text = Text()
        self._traffic(text)
        process_metrics(text, self._delay)
        if self._attached is not None:
            http_metrics(text, *self._attached)
        await asyncio.sleep(0)
        await self._partitions(text)
        return text.lines

    def _traffic(self, text: Text) -> None:
        server = self._node.server
        traffic = server.traffic()
        text.gauge("ottla_connections", "Kafka connections that are open.", len(server.connections))
        text.counter(
            "ottla_received_bytes_total", "Bytes that Kafka clients and other nodes have sent.", traffic.bytes_in
        )
        text.counter("ottla_sent_bytes_total", "Bytes of answers to them.", traffic.bytes_out)
        text.counter("ottla_requests_total", "Kafka requests served.", traffic.requests)
        text.gauge(
            "ottla_requests_waiting",
            "Kafka requests whose answer waits: for a commit, for records, for a group.",
            sum(len(connection.line) for connection in server.connections),
        )
        text.gauge("ottla_unsent_bytes", "Answers that slow clients have not taken yet.", server.unsent_bytes)
        text.counter("ottla_protocol_errors_total", "Connections closed for what they sent.", server.protocol_errors)

    # Partitions

    async def _partitions(self, text: Text) -> None:
        """Sums over all partitions of the cluster that this node has to do with, and figures of single ones."""
        node_id, limit = self._node.config.node_id, self._node.config.http.metrics_partitions_max
        led = held = offline = under_replicated = size_bytes = segments = 0
        single: list[tuple[dict[str, object], Readable]] = []
        for number, (topic, index, image) in enumerate(self._images()):
            if not number % TURN_PARTITIONS:
                await asyncio.sleep(0)
            if node_id not in image.replicas:
                continue
            held += 1
            led += image.leader == node_id
            offline += image.leader == NO_LEADER
            under_replicated += image.leader == node_id and len(image.isr) < len(image.replicas)
            readable = self._node.partitions.opened(topic, index)
            if readable is None:
                continue
            size_bytes += readable.log.size_bytes
            segments += len(readable.log.segments)
            if len(single) < limit:
                single.append(({"topic": topic, "partition": index}, readable))
        text.gauge("ottla_partitions_led", "Partitions that this node leads.", led)
        text.gauge("ottla_partitions_held", "Partitions of which this node has a replica.", held)
        text.gauge("ottla_partitions_offline", "Of those, the ones without a leader.", offline)
        text.gauge(
            "ottla_partitions_under_replicated", "Led here, with replicas that are not in sync.", under_replicated
        )
        text.gauge("ottla_log_bytes", "Size of the logs that were used since the start.", size_bytes)
        text.gauge("ottla_log_segments", "Their segments.", segments)
        await self._single(text, single)

    async def _single(self, text: Text, single: list[tuple[dict[str, object], Readable]]) -> None:
        families = (
            ("ottla_partition_end_offset", "counter", "Records written: the offset of the next.", _end_offset),
            ("ottla_partition_high_watermark", "counter", "What readers may see ends here.", _high_watermark),
            ("ottla_partition_start_offset", "counter", "The oldest record that is kept.", _start_offset),
            ("ottla_partition_bytes", "gauge", "Size of the partition's log on this node.", _size_bytes),
        )
        for name, kind, about, figure in families:
            text.family(name, kind, about)
            for number, (labels, readable) in enumerate(single):
                text.sample(name, figure(readable), labels)
                if not number % TURN_PARTITIONS:
                    await asyncio.sleep(0)

    def _images(self) -> Iterator[tuple[str, int, PartitionImage]]:
        topics = self._node.image.topics
        for name in sorted(topics):
            for index, image in topics[name].partitions.items():
                yield name, index, image


def _end_offset(readable: Readable) -> int:
    return readable.log.end_offset


def _high_watermark(readable: Readable) -> int:
    return readable.high_watermark


def _start_offset(readable: Readable) -> int:
    return readable.log.start_offset


def _size_bytes(readable: Readable) -> int:
    return readable.log.size_bytes

"""The metrics of a node: worked out from what its parts have counted, when somebody asks.

A scrape is made in turns of the event loop that stay short: partitions are walked some at a time. Figures of single
partitions are for as many as the settings allow, in the order of their names; sums are over all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.http.group_metrics import group_metrics
from ottla.http.process_metrics import LoopDelay, http_metrics, process_metrics
from ottla.membership.member import Status
from ottla.metadata.image import NO_LEADER
from ottla.observability.metrics import Histogram, Text
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.http.api import Api
    from ottla.http.edge import Edge
    from ottla.metadata.image import MetadataImage, PartitionImage
    from ottla.metadata.state import Changes
    from ottla.replication.readable import Readable
    from ottla.runtime.node import Node

TURN_PARTITIONS = 100
TIMED = {"ProduceRequest": "ottla_produce_seconds", "FetchRequest": "ottla_fetch_seconds"}

Single = list[tuple[dict[str, object], "Readable"]]
"""Partitions that have figures of their own, with their labels."""


class NodeMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._delay = LoopDelay()
        self._attached: tuple[Api, Edge] | None = None
        self._isr_changes = IsrChanges(node.image, node.config.node_id)

    def attach(self, api: Api, edge: Edge) -> None:
        self._attached = (api, edge)
        self._delay.start(asyncio.get_running_loop())
        self._node.controller.listen(lambda changes: self._isr_changes.look(changes, self._node.image))

    async def collect(self) -> list[str]:
        text = Text()
        self._traffic(text)
        self._requests(text)
        await asyncio.sleep(0)
        self._storage(text)
        self._quorum(text)
        self._gossip(text)
        process_metrics(text, self._delay)
        if self._attached is not None:
            http_metrics(text, *self._attached)
        await asyncio.sleep(0)
        single = await self._partitions(text)
        await self._single(text, single)
        await self._followers(text, single)
        await group_metrics(text, self._node)
        return text.lines

    def _traffic(self, text: Text) -> None:
        server = self._node.server
        traffic = server.traffic()
        text.gauge("ottla_connections", "Kafka connections that are open.", len(server.connections))
        text.counter("ottla_received_bytes_total", "Bytes from Kafka clients and other nodes.", traffic.bytes_in)
        text.counter("ottla_sent_bytes_total", "Bytes of answers to them.", traffic.bytes_out)
        text.gauge(
            "ottla_requests_waiting",
            "Kafka requests whose answer waits: for a commit, for records, for a group.",
            sum(len(connection.line) for connection in server.connections),
        )
        text.gauge("ottla_unsent_bytes", "Answers that slow clients have not taken yet.", server.unsent_bytes)
        text.counter("ottla_protocol_errors_total", "Connections closed for what they sent.", server.protocol_errors)

    def _requests(self, text: Text) -> None:
        """By API, over its versions."""
        served: dict[str, int] = {}
        failed: dict[str, int] = {}
        timed = {name: Histogram() for name in TIMED}
        for route in self._node.router.routes.values():
            name = route.request.__name__
            served[name] = served.get(name, 0) + route.figures.latency.count
            failed[name] = failed.get(name, 0) + route.figures.failures
            if name in timed:
                timed[name].add(route.figures.latency)
        text.counters("ottla_requests_total", "Kafka requests answered.", _by_api(served))
        text.counters("ottla_request_errors_total", "Those that were refused as a whole.", _by_api(failed))
        for name, histogram in timed.items():
            text.histogram(TIMED[name], "From request to answer, waiting included.", [({}, histogram)])

    def _storage(self, text: Text) -> None:
        node, journal = self._node, self._node.logs.group_commit.journal
        text.histogram("ottla_commit_seconds", "Commits: writing and fsync.", [({}, node.committer.latency)])
        is_broken = node.committer.failed is not None
        text.gauge("ottla_disk_failed", "1 if the disk refused a write, so that nothing can be written.", is_broken)
        text.gauge("ottla_disk_usable_bytes", "Room on the disk of the data directory.", node.log_dirs.usable_bytes())
        text.gauge("ottla_journal_bytes", "Size of the journal's files.", journal.size_bytes)
        needed = journal.next_sequence - journal.oldest
        text.gauge("ottla_journal_blocks", "Commits of which something may only be in the journal.", needed)
        age_ms = node.clock.monotonic_ms() - node.logs.checkpointed_ms
        text.gauge("ottla_journal_age_seconds", "Since logs were last synced by themselves.", age_ms / 1000)

    def _quorum(self, text: Text) -> None:
        node = self._node
        status = node.controller.quorum.status()
        text.gauge("ottla_raft_term", "The term: goes up with every election.", status.leadership.term)
        text.gauge("ottla_raft_leader_id", "Who leads the quorum; -1: nobody that is known.", node.controller_id)
        text.gauge("ottla_raft_is_leader", "1 on the active controller.", node.controller.is_active)
        text.gauge("ottla_raft_voters", "Nodes that vote.", len(status.voters))
        text.gauge("ottla_raft_log_end", "Index of the last entry of the metadata log here.", status.last_index)
        text.gauge("ottla_raft_commit_lag", "Entries here that are not committed.", status.last_index - status.commit)
        text.counters(
            "ottla_isr_changes_total",
            "Replicas that came in sync, or no longer are, of partitions led here.",
            [({"change": "expand"}, self._isr_changes.expands), ({"change": "shrink"}, self._isr_changes.shrinks)],
        )
        text.counter(
            "ottla_leader_changes_total", "Leaders that changed, of all partitions.", self._isr_changes.leaders
        )

    def _gossip(self, text: Text) -> None:
        door = self._node.door
        if door is None or door.gossip is None:
            return
        members, counters = door.gossip.members(), door.gossip.counters
        text.gauges(
            "ottla_gossip_members",
            "Other nodes, by what gossip thinks of them.",
            (({"status": status.name.lower()}, sum(each.status is status for each in members)) for status in Status),
        )
        text.counter("ottla_gossip_packets_sent_total", "Packets of gossip sent.", counters.packets_sent)
        text.counter("ottla_gossip_packets_received_total", "Packets of gossip received.", counters.packets_received)
        refused = counters.garbage + counters.foreign + counters.misaddressed
        text.counter("ottla_gossip_packets_refused_total", "Packets that were damaged or not meant for it.", refused)

    # Partitions

    async def _partitions(self, text: Text) -> Single:
        """Sums over all partitions that this node has a replica of."""
        node_id, limit = self._node.config.node_id, self._node.config.http.metrics_partitions_max
        led = held = offline = under_replicated = size_bytes = segments = 0
        single: Single = []
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
        text.gauge("ottla_topics", "Topics of the cluster.", len(self._node.image.topics))
        text.gauge("ottla_partitions_led", "Partitions that this node leads.", led)
        text.gauge("ottla_partitions_held", "Partitions of which this node has a replica.", held)
        text.gauge("ottla_partitions_offline", "Of those, the ones without a leader.", offline)
        text.gauge("ottla_partitions_under_replicated", "Led here, with replicas not in sync.", under_replicated)
        text.gauge("ottla_log_bytes", "Size of the logs that were used since the start.", size_bytes)
        text.gauge("ottla_log_segments", "Their segments.", segments)
        return single

    async def _single(self, text: Text, single: Single) -> None:
        families: tuple[tuple[str, str, str, Callable[[Readable], int]], ...] = (
            ("ottla_partition_end_offset", "counter", "Records written: the offset of the next.", _end_offset),
            ("ottla_partition_high_watermark", "counter", "What readers may see ends here.", _high_watermark),
            ("ottla_partition_start_offset", "counter", "The oldest record that is kept.", _start_offset),
            ("ottla_partition_written_bytes_total", "counter", "Bytes written to the partition here.", _written_bytes),
            ("ottla_partition_bytes", "gauge", "Size of the partition's log on this node.", _size_bytes),
        )
        for name, kind, about, figure in families:
            text.family(name, kind, about)
            for number, (labels, readable) in enumerate(single):
                text.sample(name, figure(readable), labels)
                if not number % TURN_PARTITIONS:
                    await asyncio.sleep(0)

    async def _followers(self, text: Text, single: Single) -> None:
        """How far the followers of what is led here are behind."""
        now_ms = self._node.clock.monotonic_ms()
        records: list[tuple[dict[str, object], float]] = []
        seconds: list[tuple[dict[str, object], float]] = []
        for number, (labels, readable) in enumerate(single):
            if not number % TURN_PARTITIONS:
                await asyncio.sleep(0)
            if not isinstance(readable, Partition):
                continue
            for follower in readable.followers.values():
                whose = {**labels, "replica": follower.replica_id}
                behind = readable.log.durable_offset - max(follower.end_offset, 0)
                records.append((whose, max(0, behind)))
                seconds.append((whose, max(0, now_ms - follower.caught_up_ms) / 1000 if behind > 0 else 0.0))
        text.gauges("ottla_replica_lag_records", "Records that a follower of a partition led here lacks.", records)
        text.gauges("ottla_replica_lag_seconds", "How long ago it last had everything.", seconds)

    def _images(self) -> Iterator[tuple[str, int, PartitionImage]]:
        topics = self._node.image.topics
        for name in sorted(topics):
            for index, image in topics[name].partitions.items():
                yield name, index, image


class IsrChanges:
    """Counts what the metadata tells, from when the API was loaded."""

    def __init__(self, image: MetadataImage, node_id: int) -> None:
        self._before = image
        self._node_id = node_id
        self.expands = self.shrinks = self.leaders = 0

    def look(self, changes: Changes, image: MetadataImage) -> None:
        before, self._before = self._before, image
        for topic in changes.topics_changed.values():
            for index, now in topic.partitions.items():
                then = before.partition(topic.name, index)
                if then is None or then is now:
                    continue
                self.leaders += then.leader != now.leader
                if now.leader == self._node_id:
                    self.expands += len(set(now.isr) - set(then.isr))
                    self.shrinks += len(set(then.isr) - set(now.isr))


def _by_api(counts: dict[str, int]) -> list[tuple[dict[str, object], float]]:
    return [({"api": name.removesuffix("Request")}, number) for name, number in sorted(counts.items())]


def _end_offset(readable: Readable) -> int:
    return readable.log.end_offset


def _high_watermark(readable: Readable) -> int:
    return readable.high_watermark


def _start_offset(readable: Readable) -> int:
    return readable.log.start_offset


def _written_bytes(readable: Readable) -> int:
    return readable.written_bytes


def _size_bytes(readable: Readable) -> int:
    return readable.log.size_bytes

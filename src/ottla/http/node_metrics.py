"""The metrics of a node: worked out from what its parts have counted, when somebody asks.

A scrape is made in turns of the event loop that stay short (`Turns`). Figures of single partitions are for as many as
the settings allow, in the order of their names; sums are over all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.http.group_metrics import group_metrics
from ottla.http.partition_metrics import partition_metrics
from ottla.http.process_metrics import LoopDelay, http_metrics, process_metrics
from ottla.http.transaction_metrics import transaction_metrics
from ottla.http.turns import Turns
from ottla.membership.member import Status
from ottla.observability.metrics import NO_LABELS, Histogram, Sample, Text, labelled

if TYPE_CHECKING:
    from ottla.http.api import Api
    from ottla.http.edge import Edge
    from ottla.runtime.node import Node

TIMED = {"ProduceRequest": "ottla_produce_seconds", "FetchRequest": "ottla_fetch_seconds"}


class NodeMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._delay = LoopDelay()
        self._attached: tuple[Api, Edge] | None = None

    def attach(self, api: Api, edge: Edge) -> None:
        self._attached = (api, edge)
        self._delay.start(asyncio.get_running_loop())

    async def collect(self) -> list[str]:
        text, turns = Text(), Turns()
        self._traffic(text)
        self._requests(text)
        self._storage(text)
        if turns.is_over:
            await turns.end()
        self._quorum(text)
        self._gossip(text)
        process_metrics(text, self._delay)
        if self._attached is not None:
            http_metrics(text, *self._attached)
        await partition_metrics(text, self._node, turns)
        await group_metrics(text, self._node, turns)
        await transaction_metrics(text, self._node, turns)
        return text.lines

    def _traffic(self, text: Text) -> None:
        server = self._node.server
        traffic = server.traffic()
        text.gauge("ottla_connections", "Kafka connections that are open.", len(server.connections))
        text.counter("ottla_received_bytes_total", "Bytes from Kafka clients and other nodes.", traffic.bytes_in)
        text.counter("ottla_sent_bytes_total", "Bytes of answers to them.", traffic.bytes_out)
        text.gauge("ottla_unsent_bytes", "Answers that slow clients have not taken yet.", server.unsent_bytes)
        text.counter("ottla_protocol_errors_total", "Connections closed for what they sent.", server.protocol_errors)

    def _requests(self, text: Text) -> None:
        """By API, over its versions."""
        served: dict[str, int] = {}
        took_us: dict[str, float] = {}
        failed: dict[str, int] = {}
        timed = {name: Histogram() for name in TIMED}
        for route in self._node.router.routes.values():
            name, figures = route.request.__name__, route.figures
            served[name] = served.get(name, 0) + figures.latency.count
            took_us[name] = took_us.get(name, 0.0) + figures.latency.sum_us
            failed[name] = failed.get(name, 0) + figures.failures
            if name in timed:
                timed[name].add(figures.latency)
        took_s = {name: sum_us / 1_000_000 for name, sum_us in took_us.items()}
        text.counters("ottla_requests_total", "Kafka requests answered.", _by_api(served))
        text.counters("ottla_request_seconds_total", "How long they took, waiting included.", _by_api(took_s))
        text.counters("ottla_request_errors_total", "Those that were refused as a whole.", _by_api(failed))
        text.counters(
            "ottla_partition_errors_total",
            "Partitions for which a request was refused, in an answer that has others.",
            [
                (labelled(api=api, error=error), number)
                for (api, error), number in sorted(self._node.refusals.counts.items())
            ],
        )
        text.gauges(
            "ottla_requests_waiting",
            "Kafka requests whose answer waits: for a commit, for records, for a group.",
            _by_api(self._waiting(dict.fromkeys(served, 0))),
        )
        for name, histogram in timed.items():
            text.histogram(TIMED[name], "From request to answer, waiting included.", [(NO_LABELS, histogram)])
        text.histogram(
            "ottla_end_to_end_seconds",
            "From the producer's clock to the answer that a consumer is given who reads at the end of a log.",
            [(NO_LABELS, self._node.fetcher.delivery)],
        )

    def _waiting(self, numbers: dict[str, int]) -> dict[str, int]:
        for connection in self._node.server.connections:
            for route in connection.waiting():
                numbers[route.request.__name__] += 1
        return numbers

    def _storage(self, text: Text) -> None:
        node, group_commit = self._node, self._node.logs.group_commit
        journal = group_commit.journal
        text.histogram("ottla_commit_seconds", "Commits: writing and fsync.", [(NO_LABELS, node.committer.latency)])
        text.histogram(
            "ottla_fsync_seconds", "The syncs that commits wait for.", [(NO_LABELS, group_commit.sync_latency)]
        )
        text.counter("ottla_commit_failures_total", "Commits that the disk refused.", node.committer.failures)
        is_broken = node.committer.failed is not None
        text.gauge("ottla_disk_failed", "1 if the disk failed, so that nothing can be written.", is_broken)
        text.gauge("ottla_disk_total_bytes", "Size of the disk of the data directory.", node.log_dirs.total_bytes())
        text.gauge("ottla_disk_usable_bytes", "Room on the disk of the data directory.", node.log_dirs.usable_bytes())
        text.gauge("ottla_journal_bytes", "Size of the journal's files.", journal.size_bytes)
        needed = journal.next_sequence - journal.oldest
        text.gauge("ottla_journal_blocks", "Commits of which something may only be in the journal.", needed)
        age_ms = node.clock.monotonic_ms() - node.logs.checkpointed_ms
        text.gauge("ottla_journal_age_seconds", "Since logs were last synced by themselves.", age_ms / 1000)
        held_bytes = group_commit.held.size_bytes
        text.gauge("ottla_held_bytes", "Records in the journal and in memory, not in their segments yet.", held_bytes)

    def _quorum(self, text: Text) -> None:
        node = self._node
        status = node.controller.quorum.status()
        text.gauge("ottla_raft_term", "The term: goes up with every election.", status.leadership.term)
        text.counter(
            "ottla_raft_elections_total", "Leaders that this node has seen come.", node.controller.quorum.elections
        )
        text.gauge("ottla_raft_leader_id", "Who leads the quorum; -1: nobody that is known.", node.controller_id)
        text.gauge("ottla_raft_is_leader", "1 on the active controller.", node.controller.is_active)
        text.gauge("ottla_raft_voters", "Nodes that vote.", len(status.voters))
        text.gauge("ottla_raft_log_end", "Index of the last entry of the metadata log here.", status.last_index)
        text.gauge("ottla_raft_commit_lag", "Entries here that are not committed.", status.last_index - status.commit)
        text.gauge("ottla_brokers", "Brokers of the cluster.", len(node.image.brokers))
        fenced = sum(broker.fenced for broker in node.image.brokers.values())
        text.gauge("ottla_brokers_fenced", "Of those, the ones that the controller does not hear of.", fenced)
        partitions = node.partitions
        text.counters(
            "ottla_isr_changes_total",
            "Replicas that came in sync, or no longer are, of partitions led here.",
            [(labelled(change="expand"), partitions.isr_expands), (labelled(change="shrink"), partitions.isr_shrinks)],
        )
        text.counter(
            "ottla_leader_changes_total", "Leaders that changed, of all partitions.", partitions.leader_changes
        )

    def _gossip(self, text: Text) -> None:
        door = self._node.door
        if door is None or door.gossip is None:
            return
        members, counters = door.gossip.members(), door.gossip.counters
        text.gauges(
            "ottla_gossip_members",
            "Nodes, this one too, by what gossip thinks of them.",
            (
                (labelled(status=status.name.lower()), sum(each.status is status for each in members))
                for status in Status
            ),
        )
        text.counter("ottla_gossip_suspicions_total", "Nodes that fell silent, or were said to.", counters.suspicions)
        text.counter("ottla_gossip_packets_sent_total", "Packets of gossip sent.", counters.packets_sent)
        text.counter("ottla_gossip_packets_received_total", "Packets of gossip received.", counters.packets_received)
        refused = counters.garbage + counters.foreign + counters.misaddressed
        text.counter("ottla_gossip_packets_refused_total", "Packets that were damaged or not meant for it.", refused)


def _by_api(counts: Mapping[str, float]) -> list[Sample]:
    return [(labelled(api=name.removesuffix("Request")), number) for name, number in sorted(counts.items())]

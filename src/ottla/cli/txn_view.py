"""What a whole cluster knows of its transactions: every coordinator is asked, and every leader of a partition.

A transaction hangs when a partition holds records of it and no coordinator knows of them: then nobody will end it, and
readers of committed records wait for ever. A cluster that asks the coordinator about every first record (KIP-890) has
none; one that was older once may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.cli.failures import CommandError
from ottla.cli.wire import ask, error_text
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.types import TopicPartition

TRANSACTION = 1
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInPartition:
    """A transaction that is open in a partition, as its leader sees it."""

    at: TopicPartition
    leader: str
    producer: ProducerState


class TransactionView:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._metadata = ask(bootstrap, MetadataRequest(topics=None), MetadataResponse)
        self._brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in self._metadata.brokers}

    def listed(self, states: tuple[str, ...] = (), longer_than_ms: int = -1) -> list[tuple[int, Listed]]:
        """With the coordinator of each."""
        request = ListTransactionsRequest(state_filters=states, duration_filter=longer_than_ms)
        found = []
        for node_id, address in sorted(self._brokers.items()):
            answer = ask(address, request, ListTransactionsResponse)
            _require(answer.error_code, f"Broker {node_id} can't tell its transactions")
            if answer.unknown_state_filters:
                raise CommandError(f"There is no state {', '.join(answer.unknown_state_filters)}")
            found += [(node_id, transaction) for transaction in answer.transaction_states]
        return sorted(found, key=lambda pair: pair[1].transactional_id)

    def coordinator_of(self, transactional_id: str) -> tuple[int, str]:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        found = ask(self._bootstrap, request, FindCoordinatorResponse).coordinators[0]
        _require(found.error_code, f"{transactional_id} has no coordinator now", found.error_message)
        return found.node_id, f"{found.host}:{found.port}"

    def described(self, transactional_id: str) -> tuple[int, Described]:
        node_id, address = self.coordinator_of(transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        state = ask(address, request, DescribeTransactionsResponse).transaction_states[0]
        _require(state.error_code, f"Nothing is known of {transactional_id!r}")
        return node_id, state

    def open_in_partitions(self, wanted: TopicPartition | None = None) -> Iterator[OpenInPartition]:
        """What leaders say: of one partition, or of all."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic in self._metadata.topics:
            for partition in topic.partitions:
                at = TopicPartition(topic.name or "", partition.partition_index)
                if wanted in (None, at) and partition.leader_id in self._brokers:
                    by_leader.setdefault(partition.leader_id, {}).setdefault(at.topic, []).append(at.partition)
        for leader_id, topics in sorted(by_leader.items()):
            yield from self._open_at(self._brokers[leader_id], topics)

    def _open_at(self, address: str, topics: dict[str, list[int]]) -> Iterator[OpenInPartition]:
        wanted = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        answer = ask(address, DescribeProducersRequest(topics=wanted), DescribeProducersResponse)
        for topic in answer.topics:
            for partition in topic.partitions:
                for producer in partition.active_producers if not partition.error_code else ():
                    if producer.current_txn_start_offset >= 0:
                        at = TopicPartition(topic.name, partition.partition_index)
                        yield OpenInPartition(at=at, leader=address, producer=producer)

    def hanging(self) -> list[OpenInPartition]:
        """Open in a partition, and in no transaction that a coordinator knows. Partitions first: what they hold and a
        coordinator no longer knows was ended, but what it does not know yet can't be in them.
        """
        in_partitions = list(self.open_in_partitions())
        known = set[tuple[int, TopicPartition]]()
        for _, listed in self.listed(OPEN_STATES) if in_partitions else ():
            _, described = self.described(listed.transactional_id)
            for topic in described.topics:
                known |= {(described.producer_id, TopicPartition(topic.topic, index)) for index in topic.partitions}
        suspects = {(found.producer.producer_id, found.at) for found in in_partitions} - known
        if not suspects:
            return []
        # Those whose markers came in the meantime are gone by now.
        return [found for found in self.open_in_partitions() if (found.producer.producer_id, found.at) in suspects]


def _require(code: int, sentence: str, message: str | None = None) -> None:
    if code:
        raise CommandError(f"{sentence}: {error_text(code, message)}")

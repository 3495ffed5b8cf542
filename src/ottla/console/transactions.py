"""Transactions that are open: every coordinator is asked, and every leader of a partition.

One that is open in a partition while no coordinator knows of it hangs: nobody will end it, and readers of committed
records wait at it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.http.api import Api
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.types import TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
SHOWN_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    at: TopicPartition
    producer_id: int
    start_offset: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsNow:
    open: tuple[OpenTransaction, ...]
    hanging: tuple[Hanging, ...]
    silent: tuple[int, ...]
    """Brokers that did not tell; what they coordinate is not here, and nothing is said to hang."""


async def open_transactions(api: Api) -> TransactionsNow:
    metadata = await api.topics.metadata(None)
    brokers = [broker.node_id for broker in metadata.brokers]
    # Partitions first: what they hold and a coordinator no longer knows was ended since; and they are asked again.
    before = await _open_in_partitions(api, metadata)
    listed = await api.cluster.everywhere(ListTransactionsRequest(state_filters=OPEN_STATES), brokers)
    found = await asyncio.gather(
        *(
            _described(api, node_id, [each.transactional_id for each in answer.transaction_states][:SHOWN_MAX])
            for node_id, answer in listed.items()
            if not answer.error_code
        )
    )
    silent = tuple(sorted(node_id for node_id in brokers if node_id not in listed or listed[node_id].error_code))
    known = [each for some in found for each in some]
    return TransactionsNow(
        open=tuple(sorted(known, key=lambda each: each.began_ms)),
        hanging=() if silent else await _hanging(api, metadata, before, known),
        silent=silent,
    )


async def _described(api: Api, node_id: int, names: list[str]) -> list[OpenTransaction]:
    if not names:
        return []
    answer = await api.cluster.ask(DescribeTransactionsRequest(transactional_ids=names), node_id=node_id)
    return [_told(node_id, each) for each in answer.transaction_states if not each.error_code]


def _told(node_id: int, state: TransactionState) -> OpenTransaction:
    return OpenTransaction(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        coordinator=node_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        began_ms=state.transaction_start_time_ms,
        partitions=tuple(
            sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)
        ),
    )


async def _hanging(
    api: Api, metadata: MetadataResponse, before: Iterable[Hanging], known: Iterable[OpenTransaction]
) -> tuple[Hanging, ...]:
    owned = {(each.producer_id, at) for each in known for at in each.partitions}
    suspects = {(each.producer_id, each.at) for each in before} - owned
    if not suspects:
        return ()
    still = await _open_in_partitions(api, metadata)
    return tuple(each for each in still if (each.producer_id, each.at) in suspects)


async def _open_in_partitions(api: Api, metadata: MetadataResponse) -> list[Hanging]:
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in metadata.topics:
        for partition in topic.partitions:
            if partition.leader_id >= 0:
                topics = by_leader.setdefault(partition.leader_id, {})
                topics.setdefault(topic.name or "", []).append(partition.partition_index)
    answers = await asyncio.gather(
        *(
            api.cluster.everywhere(
                DescribeProducersRequest(
                    topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
                ),
                [leader],
            )
            for leader, topics in by_leader.items()
        )
    )
    return [each for answer in answers for told in answer.values() for each in _active(told)]


def _active(answer: Any) -> Iterable[Hanging]:
    for topic in answer.topics:
        for partition in topic.partitions:
            for producer in () if partition.error_code else partition.active_producers:
                if producer.current_txn_start_offset >= 0:
                    yield Hanging(
                        at=TopicPartition(topic.name, partition.partition_index),
                        producer_id=producer.producer_id,
                        start_offset=producer.current_txn_start_offset,
                        last_ms=producer.last_timestamp,
                    )

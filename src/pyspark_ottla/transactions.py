"""Transactions from outside of the producer that wrote them, and offsets that a group commits within one.

With commits in two phases (KIP-939) a transaction has no time-out, and whoever starts its transactional id with
`keep_prepared` takes it over as it is: the one who had the id before can do nothing any more, what it wrote waits for
the new one's decision. Everything in `two_phase` rests on that.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyspark_ottla.producing import Identity
from pyspark_ottla.wire import GROUP, TRANSACTION, Broker, Cluster, WireError, check

__all__ = [
    "FENCED", "NOBODY", "NOT_OURS", "Mark", "TakenOver", "commit_mark", "end", "holder", "marks", "open_transactions",
    "start", "take_over", "write_mark",
]  # fmt: skip

TWO_PHASES_FROM: Final = 6
FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
"""Somebody else has the transactional id now."""
NOT_OURS: Final = FENCED | {ErrorCode.INVALID_TXN_STATE}
"""Or what we would abort is committed."""
GROUPS_FROM: Final = 8
NOBODY: Final = Identity(-1, -1)
"""Less than any producer."""


class TakenOver(NamedTuple):
    identity: Identity
    """Who we are."""
    prepared: Identity | None
    """Who wrote the transaction that is open, if one is."""


class Mark(NamedTuple):
    """An offset that is none: what a group wrote down at partition 0 of a topic."""

    number: int
    note: str


def require_version_2(broker: Broker) -> None:
    if broker.features.get("transaction.version", 0) < 2:
        raise WireError(ErrorCode.UNSUPPORTED_VERSION, "transactions of version 2 (Kafka 4.0) are needed")


def start(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Identity:
    """Become the producer of this id. What is open under it is aborted; what we write is, after `timeout_ms`."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    def attempt() -> Identity:
        broker = cluster.coordinator(TRANSACTION, transactional_id)
        require_version_2(broker)
        answer: InitProducerIdResponse = broker.ask(request)
        check(answer.error_code, transactional_id)
        return Identity(answer.producer_id, answer.producer_epoch)

    return cluster.persist(attempt)


def take_over(cluster: Cluster, transactional_id: str) -> TakenOver:
    """Become the producer of this id, for commits in two phases. What is open stays open, and ours to end."""
    request = InitProducerIdRequest(transactional_id=transactional_id, enable2_pc=True, keep_prepared_txn=True)

    def attempt() -> TakenOver:
        broker = cluster.coordinator(TRANSACTION, transactional_id)
        require_version_2(broker)
        if not broker.serves(InitProducerIdRequest, TWO_PHASES_FROM):
            raise WireError(ErrorCode.UNSUPPORTED_VERSION, "commits in two phases")
        answer: InitProducerIdResponse = broker.ask(request, TWO_PHASES_FROM)
        check(answer.error_code, transactional_id)
        prepared = Identity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return TakenOver(
            Identity(answer.producer_id, answer.producer_epoch), None if prepared.producer_id < 0 else prepared
        )

    return cluster.persist(attempt)


def holder(cluster: Cluster, transactional_id: str) -> Identity:
    """The producer that has this id now; NOBODY if none ever had, or not for long. Changes nothing."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def attempt() -> Identity:
        answer: DescribeTransactionsResponse = cluster.coordinator(TRANSACTION, transactional_id).ask(request)
        (state,) = answer.transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return NOBODY
        check(state.error_code, transactional_id)
        return Identity(state.producer_id, state.producer_epoch)

    return cluster.persist(attempt)


def end(cluster: Cluster, transactional_id: str, identity: Identity, *, commits: bool) -> Identity:
    """Commit or abort; who we are afterwards. Asking twice is fine."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commits,
    )

    def attempt() -> Identity:
        answer: EndTxnResponse = cluster.coordinator(TRANSACTION, transactional_id).ask(request)
        check(answer.error_code, f"{'committing' if commits else 'aborting'} {transactional_id}")
        return Identity(answer.producer_id, answer.producer_epoch)

    return cluster.persist(attempt)


def commit_mark(
    cluster: Cluster, transactional_id: str, identity: Identity, *, group: str, topic: str, mark: Mark
) -> None:
    """Let the group write down `mark` when the transaction commits."""
    partition = TxnOffsetCommitRequestPartition(committed_offset=mark.number, committed_metadata=mark.note)
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )

    def attempt() -> None:
        answer: Any = cluster.coordinator(GROUP, group).ask(request)
        check(answer.topics[0].partitions[0].error_code, f"the mark of {group}")

    cluster.persist(attempt)


def write_mark(cluster: Cluster, *, group: str, topic: str, mark: Mark) -> None:
    """Let the group write down `mark` now, outside of any transaction."""
    partition = OffsetCommitRequestPartition(committed_offset=mark.number, committed_metadata=mark.note)
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])])

    def attempt() -> None:
        answer: Any = cluster.coordinator(GROUP, group).ask(request)
        check(answer.topics[0].partitions[0].error_code, f"the mark of {group}")

    cluster.persist(attempt)


def marks(cluster: Cluster, group: str) -> list[Mark]:
    """All that the group has written down, once no transaction that would change it is open."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True)

    def attempt() -> list[Mark]:
        broker = cluster.coordinator(GROUP, group)
        answer: Any = broker.ask(request)
        check(answer.groups[0].error_code, group)
        partitions = [partition for topic in answer.groups[0].topics for partition in topic.partitions]
        for partition in partitions:
            check(partition.error_code, group)
        return [Mark(partition.committed_offset, partition.metadata or "") for partition in partitions]

    return cluster.persist(attempt)


def open_transactions(cluster: Cluster, prefix: str) -> list[str]:
    """Transactional ids that begin with `prefix` and have an open transaction."""

    def attempt() -> list[str]:
        pattern = re.escape(prefix) + ".*"
        request = ListTransactionsRequest(state_filters=["Ongoing"], transactional_id_pattern=pattern)
        found: list[str] = []
        for broker in cluster.brokers():
            answer: Any = broker.ask(request)
            check(answer.error_code, "the open transactions")
            found += [state.transactional_id for state in answer.transaction_states]
        return sorted({name for name in found if name.startswith(prefix)})

    return cluster.persist(attempt)

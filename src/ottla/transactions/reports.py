"""What administrators are told of transactions: DescribeTransactions and ListTransactions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.describe_transactions import TopicData
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.list_transactions import TransactionState as Listed
from ottla.transactions.states import LABELS, NAMES_WITHOUT_STATES, TransactionState
from ottla.transactions.transaction import Transaction

ANY_DURATION = -1


class Filter(NamedTuple):
    """Which transactions are asked for; an empty collection asks for all."""

    states: Collection[TransactionState | None]
    """None stands for a state that nothing is ever in."""
    producer_ids: Collection[int]
    duration_ms: int = ANY_DURATION
    pattern: re.Pattern[str] | None = None

    def takes(self, transaction: Transaction, now_ms: int) -> bool:
        return (
            (not self.states or transaction.state in self.states)
            and (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.fullmatch(transaction.transactional_id) is not None)
        )


def read_filter(
    states: Iterable[str], producer_ids: Iterable[int], duration_ms: int, pattern: str | None
) -> tuple[Filter, list[str]]:
    """The filter, and the names of states that mean nothing. Raises INVALID_REGULAR_EXPRESSION."""
    states = list(states)
    unknown = [name for name in states if name not in LABELS and name not in NAMES_WITHOUT_STATES]
    known = {LABELS.get(name) for name in states if name not in unknown}
    try:
        compiled = re.compile(pattern) if pattern else None
    except re.error as error:
        raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {error}") from None
    return Filter(known, frozenset(producer_ids), duration_ms, compiled), unknown


def listed(transaction: Transaction) -> Listed:
    return Listed(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


def described(transactional_id: str, transaction: Transaction | None) -> Described:
    if transaction is None:
        return Described(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(index)
    return Described(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()],
    )

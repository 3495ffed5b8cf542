"""Metrics of the transactions that a node coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.observability.metrics import labelled
from ottla.transactions.states import TransactionState

if TYPE_CHECKING:
    from ottla.http.turns import Turns
    from ottla.observability.metrics import Text
    from ottla.runtime.node import Node


async def transaction_metrics(text: Text, node: Node, turns: Turns) -> None:
    states = dict.fromkeys(TransactionState, 0)
    now_ms = oldest_ms = node.clock.now_ms()
    for shard in list(node.transactions.shards()):
        if turns.is_over:
            await turns.end()
        for transaction in shard.known():
            states[transaction.state] += 1
            if not transaction.state.is_idle:
                oldest_ms = min(oldest_ms, transaction.start_ms)
    text.gauges(
        "ottla_transactions",
        "Transactional ids that this node coordinates, by the state of their last transaction.",
        [(labelled(state=state.label), number) for state, number in states.items()],
    )
    age_s = (now_ms - oldest_ms) / 1000
    text.gauge("ottla_transaction_oldest_seconds", "How long the oldest of those is open that are.", age_s)

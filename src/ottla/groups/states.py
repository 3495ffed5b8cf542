"""The states of a classic group, and every way from one to another.

    Empty ──────────────▶ PreparingRebalance ──────▶ CompletingRebalance ──────▶ Stable
      ▲   somebody joins    │        ▲   all joined    │   the leader has         │
      │                     │        │   or time is up │   given everybody work   │
      └─────────────────────┘        └─────────────────┴──────────────────────────┘
           all have left                somebody joins, leaves, fails or changes

Dead is the end: the shard has been given up while the group was in any of them.
"""

from collections.abc import Mapping
from enum import StrEnum


class GroupState(StrEnum):
    """Named as Kafka's tools print them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}

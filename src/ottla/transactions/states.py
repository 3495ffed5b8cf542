"""The states of a transaction, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """Numbers as in the log, names as Kafka's tools show them (`label`)."""

    EMPTY = 0
    """The id has a producer and no transaction."""
    ONGOING = 1
    PREPARE_COMMIT = 2
    """It will be committed, come what may; markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every partition has its marker. To the producer this is the same as empty."""
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Decided, and not yet carried out."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """There is no transaction."""
        return self is not TransactionState.ONGOING and not self.is_prepared


S = TransactionState

NEXT: Mapping[TransactionState, frozenset[TransactionState]] = {
    S.EMPTY: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
    S.ONGOING: frozenset({S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT}),
    S.PREPARE_COMMIT: frozenset({S.COMPLETE_COMMIT}),
    S.PREPARE_ABORT: frozenset({S.COMPLETE_ABORT}),
    S.COMPLETE_COMMIT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
    S.COMPLETE_ABORT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
}
"""An abort without a transaction (from version 2 on) only raises the epoch; it goes the same way as any other."""

LABELS: Mapping[str, TransactionState] = {state.label: state for state in TransactionState}

NAMES_WITHOUT_STATES = frozenset({"Dead", "PrepareEpochFence"})
"""States that Kafka's tools may ask for and that nothing is ever in here."""

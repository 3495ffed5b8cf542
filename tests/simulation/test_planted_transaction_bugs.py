"""Each known bug of transactions is found within a bounded number of seeds: these checkers can fail too."""

import pytest

from ottla.testing.simulation import Faults, SimulationFailedError, Workload, simulate
from ottla.testing.transaction_checkers import TRANSACTION_RULES
from tests.simulation.planted_bugs import Bug
from tests.simulation.planted_transaction_bugs import (
    ask_no_coordinator,
    keep_the_epoch,
    let_offsets_of_aborted_transactions_count,
    let_readers_see_open_transactions,
    lose_markers_when_leaders_move,
    lose_offsets_of_transactions,
)

SEEDS_MAX = 16
WORKLOAD = Workload(partitions=3, producers=0, consumers=0, members=0, transactional=3)
COPYING = Workload(partitions=2, producers=0, consumers=0, members=0, transactional=2, copiers=3)
WHOLE = "TransactionsAreWhole"
COPIED = "CopiedExactlyOnce"
ABORTED = "NoAbortedReads"
HANGS = "Liveness"
"""A transaction that nobody ends holds readers back for ever."""


@pytest.mark.parametrize(
    ("bug", "nodes", "rules"),
    [
        (lose_markers_when_leaders_move, 3, {HANGS, WHOLE, ABORTED}),
        pytest.param(let_readers_see_open_transactions, 1, {ABORTED}, marks=pytest.mark.pure),
        (keep_the_epoch, 1, {WHOLE, ABORTED}),
        pytest.param(ask_no_coordinator, 1, {HANGS}, marks=pytest.mark.pure),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, nodes: int, rules: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(rules & broken(nodes, seed) for seed in range(SEEDS_MAX))


@pytest.mark.parametrize(
    "bug", [let_offsets_of_aborted_transactions_count, lose_offsets_of_transactions, keep_the_epoch]
)
def test_a_planted_bug_is_found_by_what_is_copied(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(COPIED in broken(1, seed, COPYING) for seed in range(SEEDS_MAX))


def broken(nodes: int, seed: int, workload: Workload = WORKLOAD) -> set[str]:
    faults = Faults.all() if nodes == 1 else Faults.cluster()
    try:
        simulate(seed, workload, *TRANSACTION_RULES, nodes=nodes, faults=faults, virtual_seconds=20)
    except SimulationFailedError as found:
        return {violation.rule for violation in found.violations}
    return set()

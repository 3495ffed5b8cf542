"""Each known bug of a cluster is found within a bounded number of seeds: the simulator and its checkers can fail."""

import pytest

from ottla.testing.checkers import Checker, NoAnomalies, NoLostWrites, OneLeaderPerTerm, SameReplicas
from ottla.testing.simulation import Faults, SimulationFailedError, Workload, simulate
from tests.simulation.planted_bugs import Bug
from tests.simulation.planted_cluster_bugs import (
    acknowledge_before_the_sync,
    blame_clients_for_gaps,
    count_what_followers_have_not_synced,
    lose_truncations,
    shrink_without_the_controller,
    skip_the_epoch_check,
    vote_without_persisting,
)

SEEDS_MAX = 24
RARE = 100
"""A seed with which it happened when this was written: there are others behind it."""
EAGER = Workload(partitions=3, producers=3, consumers=0, members=0)
CROWD = Workload(partitions=1, producers=3, consumers=2, members=0)
BLACKOUTS = Faults(blackout=3, slow_disk=9, pause_s_max=1.2, down_s_max=2.0)
LONELY_LEADERS = Faults(isolate=5, power_loss=5, blackout=2, kill=2, pause_s_max=2.0, down_s_max=3.0)
"""What a leader wrote while it was alone must go when it is back."""
SEPARATIONS = Faults(isolate=6, freeze=2, power_loss=1, pause_s_max=4.0, down_s_max=3.0)
STUMBLING = Faults(blackout=5, kill=5, isolate=2, pause_s_max=0.8, down_s_max=0.5)
"""Nodes that die and are back before an election is over."""


@pytest.mark.parametrize(
    ("bug", "nodes", "faults", "rule"),
    [
        pytest.param(acknowledge_before_the_sync, 3, BLACKOUTS, NoLostWrites, marks=pytest.mark.pure),
        pytest.param(count_what_followers_have_not_synced, 3, BLACKOUTS, NoLostWrites, marks=pytest.mark.pure),
        pytest.param(skip_the_epoch_check, 3, LONELY_LEADERS, SameReplicas, marks=pytest.mark.pure),
        pytest.param(lose_truncations, 3, LONELY_LEADERS, SameReplicas, marks=pytest.mark.pure),
        pytest.param(shrink_without_the_controller, 3, SEPARATIONS, NoLostWrites, marks=pytest.mark.pure),
        (vote_without_persisting, 5, STUMBLING, OneLeaderPerTerm),
    ],
)
def test_a_planted_bug_is_found(
    bug: Bug, nodes: int, faults: Faults, rule: type[Checker], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    assert any(breaks(rule, nodes, faults, seed) for seed in range(SEEDS_MAX))


@pytest.mark.pure
def test_a_new_leader_that_blames_clients_for_gaps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed in thirty does it."""
    blame_clients_for_gaps(monkeypatch)
    assert any(breaks(NoAnomalies, 3, Faults.restarts(), seed, EAGER, 10) for seed in range(RARE, RARE + 2 * SEEDS_MAX))


def breaks(
    rule: type[Checker], nodes: int, faults: Faults, seed: int, workload: Workload = CROWD, seconds: float = 20
) -> bool:
    try:
        simulate(seed, workload, nodes=nodes, faults=faults, virtual_seconds=seconds)
    except SimulationFailedError as found:
        return any(violation.rule == rule.__name__ for violation in found.violations)
    return False

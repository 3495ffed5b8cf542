"""Whole clusters in bad weather: nothing that Raft promises may break, whatever the seed.

OTTLA_RAFT_SEEDS=2000 pytest tests/raft/test_cluster.py         more of them; a failure prints its seed
"""

from __future__ import annotations

import os

import pytest

from tests.raft.bugs import HUNTS, Hunt
from tests.raft.simulation import Chances, Simulation, find_violation

SEEDS = int(os.environ.get("OTTLA_RAFT_SEEDS", "60"))
SEEDS_PER_TEST = 10
TURNS = 400
SEEDS_TO_FIND_A_BUG = 150


@pytest.mark.parametrize("first_seed", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_in_any_weather(first_seed: int) -> None:
    found = {seed: find_violation(Simulation(seed), TURNS) for seed in range(first_seed, first_seed + SEEDS_PER_TEST)}
    assert {seed: problem for seed, problem in found.items() if problem} == {}


def test_the_weather_is_bad_and_work_is_done_all_the_same() -> None:
    """Otherwise the test above would show nothing."""
    runs = [Simulation(seed) for seed in range(20)]
    for run in runs:
        run.run(TURNS)
    assert sum(len(run.acknowledged) for run in runs) > 400
    assert sum(run.reads_served for run in runs) > 400
    assert sum(len(run.elections.leaders) for run in runs) > 60
    assert sum(len(run.snapshots.states) for run in runs) > 60
    assert sum(host.lives - 1 for run in runs for host in run.hosts.values()) > 60


def test_a_seed_is_played_the_same_way_again() -> None:
    first, second = Simulation(7), Simulation(7)
    first.run(TURNS)
    second.run(TURNS)
    assert first.committed.chosen == second.committed.chosen
    assert first.draw.random() == second.draw.random()


def test_without_faults_one_leader_lasts() -> None:
    fair = Chances(lose=0, double=0, cut=0, crash=0, transfer=0, change_voters=0, slow_disk=0)
    run = Simulation(1, chances=fair, voters=3)
    run.run(TURNS)
    assert len(run.elections.leaders) == 1


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda hunt: hunt.plant.__name__)
def test_a_planted_bug_is_found(hunt: Hunt, monkeypatch: pytest.MonkeyPatch) -> None:
    hunt.plant(monkeypatch)
    found = (find_violation(hunt.simulation(seed), TURNS) for seed in range(SEEDS_TO_FIND_A_BUG))
    assert any(found), f"not found with {SEEDS_TO_FIND_A_BUG} seeds: {hunt.plant.__doc__}"


@pytest.mark.parametrize("hunt", [hunt for hunt in HUNTS if hunt.chances], ids=lambda hunt: hunt.plant.__name__)
def test_the_weather_of_a_hunt_breaks_nothing_by_itself(hunt: Hunt) -> None:
    found = {seed: find_violation(hunt.simulation(seed), TURNS) for seed in range(10)}
    assert {seed: problem for seed, problem in found.items() if problem} == {}

"""The simulator itself: what it repeats, what it prints, and that its faults do what they say."""

import subprocess
import sys

import pytest

from ottla.testing.checkers import Violation
from ottla.testing.simulation import Faults, SimulatedCluster, Workload, simulate

SEED = 8
DIGEST = f"""
from ottla.testing.simulation import Faults, Workload, simulate
print(simulate({SEED}, Workload(), faults=Faults.all(), virtual_seconds=6).world.trace.digest)
"""


def digest(seed: int) -> str:
    return simulate(seed, Workload(), faults=Faults.all(), virtual_seconds=6).world.trace.digest


def test_the_same_seed_gives_the_same_history() -> None:
    assert digest(SEED) == digest(SEED)


def test_another_seed_gives_another_history() -> None:
    assert digest(SEED) != digest(SEED + 1)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_gives_the_same_history(hash_seed: str) -> None:
    """Whatever order its sets of strings have."""
    run = subprocess.run(
        [sys.executable, "-c", DIGEST],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": hash_seed},
    )
    assert run.stdout.strip() == digest(SEED)


def test_a_failure_names_its_seed_and_tells_what_happened() -> None:
    with SimulatedCluster(seed=5) as cluster:
        cluster.run(Workload.produce_and_consume(), virtual_seconds=1)
    text = str(cluster.failure([Violation("SomeRule", "is broken")]))

    assert "seed 5" in text
    assert "SomeRule: is broken" in text
    assert "node-1     serves" in text


def test_an_hour_passes_in_no_time_when_nobody_does_anything() -> None:
    with SimulatedCluster(seed=1) as cluster:
        cluster.nodes[0].start()
        cluster.world.run_for(3600)

        assert cluster.world.now == 3600
        assert cluster.nodes[0].is_serving
        assert cluster.world.trace.count < 2000


def test_without_faults_nothing_is_unknown() -> None:
    with SimulatedCluster(seed=3) as cluster:
        history = cluster.run(Workload(), virtual_seconds=5)

    assert cluster.nodes[0].starts == 1
    assert {operation.outcome for operation in history.operations} == {"ok"}

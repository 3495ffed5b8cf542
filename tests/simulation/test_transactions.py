"""The promises of transactions, under every fault that the simulator knows."""

import pytest

from ottla.testing.checkers import EVERYTHING
from ottla.testing.history import Outcome
from ottla.testing.sim_copies import Copying
from ottla.testing.simulation import Faults, Workload, simulate
from ottla.testing.transaction_checkers import TRANSACTION_RULES
from tests.simulation.seeds import seeds

WORKLOAD = Workload(partitions=3, producers=0, consumers=0, members=0, transactional=3)
COPYING = Workload(partitions=2, producers=0, consumers=0, members=0, transactional=2, copiers=3)
"""Two copiers have the same partition."""
RULES = (*EVERYTHING, *TRANSACTION_RULES)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_of_one_node_are_whole_whatever_happens_to_it(seed: int) -> None:
    simulate(seed, WORKLOAD, *RULES, nodes=1, faults=Faults.all(), virtual_seconds=20)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_of_a_cluster_are_whole_whatever_happens_to_it(seed: int) -> None:
    simulate(seed, WORKLOAD, *RULES, nodes=3, faults=Faults.cluster(), virtual_seconds=20)


@pytest.mark.parametrize(("nodes", "seed"), [*((1, seed) for seed in seeds(4)), *((3, seed) for seed in seeds(4))])
def test_what_is_read_processed_and_written_is_so_exactly_once_whatever_happens(nodes: int, seed: int) -> None:
    faults = Faults.all() if nodes == 1 else Faults.cluster()
    simulate(seed, COPYING, *RULES, nodes=nodes, faults=faults, virtual_seconds=20)


def test_copiers_get_something_done_among_faults_and_aborted_attempts() -> None:
    history = simulate(1, COPYING, *RULES, nodes=1, faults=Faults.all(), virtual_seconds=20).history
    outcomes = {copying.outcome for copying in history.of(Copying)}

    assert len(history.acknowledged(Copying)) >= 5
    assert Outcome.FAILED in outcomes

"""The promises of transactions, under every fault that the simulator knows."""

import pytest

from ottla.testing.checkers import EVERYTHING
from ottla.testing.simulation import Faults, Workload, simulate
from ottla.testing.transaction_checkers import TRANSACTION_RULES
from tests.simulation.seeds import seeds

WORKLOAD = Workload(partitions=3, producers=0, consumers=0, members=0, transactional=3)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_of_one_node_are_whole_whatever_happens_to_it(seed: int) -> None:
    simulate(seed, WORKLOAD, *EVERYTHING, *TRANSACTION_RULES, nodes=1, faults=Faults.all(), virtual_seconds=20)


@pytest.mark.parametrize("seed", seeds(6))
def test_transactions_of_a_cluster_are_whole_whatever_happens_to_it(seed: int) -> None:
    simulate(seed, WORKLOAD, *EVERYTHING, *TRANSACTION_RULES, nodes=3, faults=Faults.cluster(), virtual_seconds=20)

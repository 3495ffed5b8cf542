"""A hundred nodes are one cluster, and stay one while nearly a third of them dies."""

import pytest

from tests.simulation.large import LargeCluster

NODES = 100
DEATHS = 30
REPLICAS = 3


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_hundred_nodes_form_a_cluster_that_survives_thirty_deaths() -> None:
    large = survive(NODES, DEATHS, seed=1)
    assert len(large.living) == NODES - DEATHS
    assert max(large.held()) <= 2 * REPLICAS * NODES / (NODES - DEATHS)


def test_twelve_nodes_form_a_cluster_that_survives_four_deaths() -> None:
    large = survive(12, 4, seed=2)
    assert sum(large.held()) == 12 * REPLICAS


def survive(nodes: int, deaths: int, *, seed: int) -> LargeCluster:
    """A partition for each node; every death is mended before the next."""
    large = LargeCluster(nodes, seed=seed, partitions=nodes)
    with large.simulated as simulated:
        large.form()
        for _ in range(deaths):
            large.lose_one()
            large.mend()
    assert simulated.world.failures == []
    return large

"""The promises of a cluster, under every fault that the simulator knows."""

import pytest

from ottla.testing.simulation import Faults, SimulatedCluster, Workload, simulate
from tests.simulation.seeds import seeds


@pytest.mark.parametrize("seed", seeds(12))
def test_a_cluster_keeps_its_promises_whatever_happens_to_it(seed: int) -> None:
    cluster = simulate(seed, Workload(), nodes=3, faults=Faults.cluster(), virtual_seconds=20)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(6))
def test_acknowledged_records_survive_crash_after_crash_of_any_node(seed: int) -> None:
    workload = Workload.produce_and_consume(producers=2, partitions=3)
    cluster = simulate(seed, workload, nodes=3, faults=Faults.crashes(), virtual_seconds=15)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(6))
def test_no_producer_is_out_of_order_because_nodes_restart(seed: int) -> None:
    workload = Workload.produce_and_consume(producers=3, partitions=3)
    cluster = simulate(seed, workload, nodes=3, faults=Faults.restarts(), virtual_seconds=10)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(6))
def test_a_network_that_falls_apart_loses_nothing(seed: int) -> None:
    cluster = simulate(seed, Workload(), nodes=5, faults=Faults.partitions(), virtual_seconds=20)
    assert all(cluster.history.final.values())


def test_the_same_seed_gives_the_same_cluster() -> None:
    def digest() -> str:
        return simulate(3, Workload(), nodes=3, faults=Faults.cluster(), virtual_seconds=6).world.trace.digest

    assert digest() == digest()


def test_without_faults_a_cluster_forms_once_and_nothing_fails() -> None:
    with SimulatedCluster(nodes=3, seed=1) as cluster:
        history = cluster.run(Workload(), virtual_seconds=5)

    assert [node.starts for node in cluster.nodes] == [1, 1, 1]
    assert {operation.outcome for operation in history.operations} == {"ok"}
    assert {len(copies) for copies in history.replicas.values()} == {3}

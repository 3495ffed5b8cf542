"""Whole clusters of the production node in virtual time, under faults, with clients that remember what they saw.

    with SimulatedCluster(nodes=3, seed=7, faults=Faults.cluster()) as cluster:
        history = cluster.run(Workload.produce_and_consume(producers=2, partitions=3), virtual_seconds=30)
    assert check(history) == []

`simulate` does all of that and raises an error that names the seed and shows what happened last.

    sim_world.py     virtual time, the dice, the trace        sim_links.py, sim_network.py, sim_transport.py,
    sim_loop.py      asyncio on it, one loop per process      sim_datagrams.py   what is between machines
    sim_machine.py   disk, clock, threads, death              sim_plan.py, sim_faults.py  what goes wrong, and when
    sim_node.py      a node and its supervisor                sim_shrink.py    a smaller plan that fails too
    sim_client.py    a client; sim_view.py is what it knows   sim_audit.py     what the disks hold in the end
    sim_producer.py, sim_reader.py, sim_member.py, sim_admin.py   what clients do
    history.py       what clients saw                         checkers.py      what they can't have seen
"""

from __future__ import annotations

from ottla.testing.checkers import Checker, Violation, check
from ottla.testing.sim_cluster import TOPIC, SimulatedCluster, SimulationFailedError, Workload
from ottla.testing.sim_plan import Faults, Plan

__all__ = ["TOPIC", "Faults", "SimulatedCluster", "SimulationFailedError", "Workload", "check", "simulate"]


def simulate(
    seed: int,
    workload: Workload | None = None,
    *checkers: type[Checker],
    nodes: int = 1,
    faults: Faults | None = None,
    virtual_seconds: float = 20.0,
    plan: Plan | None = None,
) -> SimulatedCluster:
    """Run one seed and check it; raises SimulationFailedError. `plan` takes the place of the faults it would draw."""
    faults = faults or (Faults.all() if nodes == 1 else Faults.cluster())
    with SimulatedCluster(nodes=nodes, seed=seed, faults=faults, plan=plan) as cluster:
        history = cluster.run(workload or Workload(), virtual_seconds=virtual_seconds)
    violations = [Violation("Unhandled", failure) for failure in cluster.world.failures]
    violations += check(history, *checkers)
    if violations:
        raise cluster.failure(violations)
    return cluster

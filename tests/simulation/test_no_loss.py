"""The promises of a node, under every fault that the simulator knows."""

from typing import Any

import pytest

from ottla.storage.group_commit import GroupCommit
from ottla.testing.simulation import Faults, Workload, simulate
from tests.simulation.seeds import seeds


@pytest.mark.parametrize("seed", seeds(24))
def test_a_node_keeps_its_promises_whatever_happens_to_it(seed: int) -> None:
    cluster = simulate(seed, Workload(), faults=Faults.all(), virtual_seconds=15)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(8))
def test_acknowledged_records_survive_crash_after_crash(seed: int) -> None:
    workload = Workload.produce_and_consume(producers=2, partitions=3)
    cluster = simulate(seed, workload, faults=Faults.crashes(), virtual_seconds=10)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(6))
def test_records_that_were_synced_in_their_segments_survive_too(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit does with a megabyte of one log, here with a few hundred bytes."""
    build = GroupCommit.__init__

    def build_with_small_bound(self: GroupCommit, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.segment_sync_bytes_min = 300

    monkeypatch.setattr(GroupCommit, "__init__", build_with_small_bound)
    cluster = simulate(seed, Workload(), faults=Faults.crashes(), virtual_seconds=10)
    assert all(cluster.history.final.values())


@pytest.mark.parametrize("seed", seeds(6))
def test_syncs_that_fail_lose_nothing_that_was_acknowledged(seed: int) -> None:
    faults = Faults(failed_sync=3, power_loss=4, slow_disk=1, pause_s_max=2.0)
    simulate(seed, Workload(), faults=faults, virtual_seconds=15)

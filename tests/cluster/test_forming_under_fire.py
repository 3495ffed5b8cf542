"""Processes that found a cluster are killed, stopped for a while and robbed of their disks: one cluster comes of it.

One founder in each round may lose its disk, as often as chance will have it; the others keep theirs, so that a majority
is left whatever has been founded meanwhile. What happens when it is not is in `tests/membership/test_founding.py`.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.cluster.processes import ClusterNode, ClusterProcesses

ROUNDS_LONG = int(os.environ.get("OTTLA_TEST_FORMING_ROUNDS", "40"))
STEPS = 14


def clusters(cluster: ClusterProcesses) -> set[str]:
    found = (node.cluster_id for node in cluster.nodes.values())
    return {cluster_id for cluster_id in found if cluster_id is not None}


def disturb(node: ClusterNode, dice: random.Random, *, may_be_wiped: bool) -> None:
    if not node.alive():
        node.launch()
    elif dice.random() < 0.3:
        node.pause()
        let_pass(dice.uniform(0.0, 0.4))
        node.resume()
    elif dice.random() < 0.7:
        node.kill()
        if may_be_wiped and node.data_dir.exists():
            node.wipe()


def let_pass(seconds: float) -> None:
    """Others are at work: when they are disturbed is what the dice decide."""
    time.sleep(seconds)


def one_round(directory: Path, seed: int) -> None:
    dice = random.Random(seed)
    cluster = ClusterProcesses(directory, 3, "--set", "quorum.voter_replace_ms=1s")
    unlucky = dice.choice(list(cluster.nodes.values()))
    try:
        for _ in range(STEPS):
            node = dice.choice(list(cluster.nodes.values()))
            disturb(node, dice, may_be_wiped=node is unlucky)
            let_pass(dice.choice([0.0, 0.05, 0.2, 0.5]))
            assert len(clusters(cluster)) <= 1, f"seed {seed}\n{cluster.logs()}"
        for node in cluster.nodes.values():
            if not node.alive():
                node.launch()
        cluster.until_brokers(1, 2, 3)
        assert len(clusters(cluster)) == 1, f"seed {seed}\n{cluster.logs()}"
    finally:
        cluster.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_founders_that_are_disturbed_become_one_cluster(tmp_path: Path, seed: int) -> None:
    one_round(tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_founders_that_are_disturbed_become_one_cluster_every_time(tmp_path: Path) -> None:
    for seed in range(1_000, 1_000 + ROUNDS_LONG):
        one_round(tmp_path / str(seed), seed)

"""kill -9 at any moment loses nothing that was acknowledged, and a node comes back by itself."""

import contextlib
import os
from pathlib import Path

import pytest

from tests.interop.node_process import NodeProcess
from tests.robustness import kill_loop


@pytest.mark.parametrize("durability", ["commit", "os"])
def test_nothing_acknowledged_is_lost_over_a_few_kills(tmp_path: Path, durability: str) -> None:
    """With durability os as well: the page cache outlives the process."""
    with contextlib.closing(NodeProcess(tmp_path, "--durability", durability)) as node:
        outcome = kill_loop.run(node, kills=4, seed=1)

    assert outcome.problems == []
    assert outcome.acknowledged == 4 * 3000


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(int(os.environ.get("OTTLA_CRASH_SEEDS", "10"))))
def test_nothing_acknowledged_is_lost_over_many_kills(node: NodeProcess, seed: int) -> None:
    kills = int(os.environ.get("OTTLA_CRASH_KILLS", "40"))

    outcome = kill_loop.run(node, kills=kills, seed=seed)

    assert outcome.problems == []
    assert outcome.kills == kills

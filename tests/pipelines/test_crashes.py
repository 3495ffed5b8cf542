"""The pipeline is killed (kill -9) in the middle of runs and started again: each event is counted once.

Spark's Python workers may outlive the driver for a moment, as after a crash. Takes minutes: `make spark-crash`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node_process import NodeProcess
from tests.pipelines.rig import CLOSING, Rig
from tests.programs import needs

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    needs("java"),
]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with NodeProcess(tmp_path / "node") as node:
        yield Rig(tmp_path, node.bootstrap)


def test_a_pipeline_that_is_killed_goes_on_where_it_was_and_counts_everything_once(rig: Rig) -> None:
    rig.send()
    first = rig.start()
    assert first.ended() == 0
    assert first.batches("clean")[0] == 0

    for moment in ("sliding is RUNNING", "tell_results is RUNNING"):
        rig.send()
        killed = rig.start("--every", "100ms")
        killed.until(moment)
        killed.kill()
    rig.send("--heartbeat", CLOSING)
    last = rig.start()

    assert last.ended() == 0
    assert min(last.batches("clean")) > max(first.batches("clean"))
    assert [found for found in rig.check() if found["missing"] or found["unexpected"]] == []

"""A query is killed (kill -9) in the middle of batches and started again: each row is there once.

Spark's Python workers are in a process group of their own and may outlive the driver for a moment, as after a crash.
Takes minutes: `make spark-crash`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.node_process import process_wait
from tests.spark.reading import Topics
from tests.spark.small import needs_java

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800), needs_java]

KILLS = 3
ROWS = 1_000
REPOSITORY = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.copy_query", *arguments]
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver and its JVM."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def batches_begun(checkpoint: Path) -> int:
    return len([file for file in checkpoint.glob("offsets/*") if file.name.isdigit()])


def test_a_query_that_is_killed_again_and_again_writes_every_row_once(topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    values = sorted(b"%d" % number for number in range(ROWS))
    topics.fill(source, values)
    arguments = (topics.bootstrap, source, target, str(tmp_path))

    for _ in range(KILLS):
        begun = batches_begun(tmp_path)
        process = start(*arguments)
        while batches_begun(tmp_path) <= begun and process.poll() is None:
            process_wait(process, 0.01)
        process_wait(process, random.uniform(0, 2))
        kill(process)
        seen = topics.committed(target)
        assert len(seen) == len(set(seen))
    last = start(*arguments)

    assert last.wait(600) == 0
    assert topics.committed(target) == values
    assert topics.open_transactions() == []

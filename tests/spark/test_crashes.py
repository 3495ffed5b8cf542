"""Whole queries, in processes of their own, that are killed (kill -9) and started again: each row is there once.

Spark's Python workers are in a process group of their own and may outlive the driver for a moment, as after a crash.
One of the faults is in `make test`, all of them in `make spark-crash`, which takes minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.testing.pytest_plugin import OttlaNode
from tests.interop.node_process import process_wait
from tests.interop.waiting import eventually
from tests.spark.crashing import DRIVER_FAULTS
from tests.spark.reading import Topics
from tests.spark.small import needs_java

pytestmark = [pytest.mark.timeout(900), needs_java]

KILLS = 3
ROWS = 1_000
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def query(module: str, directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with open(directory / "query.log", "ab") as log:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver and its JVM, whichever is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def log(directory: Path) -> str:
    return (directory / "query.log").read_text(errors="replace")[-6_000:]


def batches_begun(checkpoint: Path) -> int:
    return len([file for file in checkpoint.glob("offsets/*") if file.name.isdigit()])


def survives(topics: Topics, directory: Path, fault: str, rows: int) -> None:
    """A query that meets this fault, and is started again if it died of it, copies every row once."""
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    values = sorted(b"%d" % number for number in range(rows))
    topics.fill(source, values)
    arguments = (topics.bootstrap, source, target, str(directory), fault)

    with query("tests.spark.crashing", directory, *arguments) as process:
        code = process.wait(400)
    assert (directory / "struck").exists(), log(directory)
    assert (code != 0) == (fault in DRIVER_FAULTS), log(directory)
    seen = topics.committed(target)
    assert len(seen) == len(set(seen))
    if fault in DRIVER_FAULTS:
        with query("tests.spark.crashing", directory, *arguments) as process:
            assert process.wait(400) == 0, log(directory)

    assert topics.committed(target) == values
    eventually(lambda: topics.open_transactions() == [], what="no transaction is open")


def test_a_query_whose_commit_goes_on_without_its_driver_writes_every_row_once(topics: Topics, tmp_path: Path) -> None:
    survives(topics, tmp_path, "orphan", 150)


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["spark_node", "plain_node"], ids=["two-phases", "marks"])
@pytest.mark.parametrize("fault", [*DRIVER_FAULTS, "task", "executor"])
def test_every_row_is_there_once_whatever_dies(
    request: pytest.FixtureRequest, tmp_path: Path, fault: str, cluster: str
) -> None:
    if fault == "after-decision" and cluster == "plain_node":
        pytest.skip("there is no decision where there are no two phases")
    node: OttlaNode = request.getfixturevalue(cluster)
    topics = Topics(node, request.node.name)
    with topics.opened:
        survives(topics, tmp_path, fault, 300)


@pytest.mark.long
def test_a_query_that_is_killed_again_and_again_writes_every_row_once(topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    values = sorted(b"%d" % number for number in range(ROWS))
    topics.fill(source, values)
    arguments = (topics.bootstrap, source, target, str(tmp_path))

    for _ in range(KILLS):
        begun = batches_begun(tmp_path)
        with query("tests.spark.copy_query", tmp_path, *arguments) as process:
            while batches_begun(tmp_path) <= begun and process.poll() is None:
                process_wait(process, 0.01)
            process_wait(process, random.uniform(0, 2))
        seen = topics.committed(target)
        assert len(seen) == len(set(seen))

    with query("tests.spark.copy_query", tmp_path, *arguments) as process:
        assert process.wait(600) == 0, log(tmp_path)
    assert topics.committed(target) == values
    assert topics.open_transactions() == []

"""A program that is killed at every step: the database and the topic always agree in the end."""

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.dying import NEVER
from tests.interop.node_process import NodeProcess
from tests.interop.test_confluent_transactions import read_all
from tests.two_phase import crashing

STEPS_MAX = 300
RECOVERY_STEPS = 12
"""A start with something to settle takes about so many."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.two_phase.crashing"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    enabled = ("--set", "transactions.transaction_two_phase_commit_enable=true", "--no-http")
    with NodeProcess(tmp_path / "node", *enabled) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(crashing.TOPIC, 2, 1)])[crashing.TOPIC].result(30)
        yield running


def outcome(function: Callable[..., None], *arguments: Any) -> int:
    """The exit code of a process that runs it."""
    process = processes.Process(target=function, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode


def both_sides(node: NodeProcess, path: str) -> tuple[set[str], Counter[str]]:
    with closing(crashing.connect(path)) as database:
        rows = {name for (name,) in database.execute("SELECT name FROM orders")}
    return rows, Counter(value.decode() for value in read_all(node.bootstrap, crashing.TOPIC, 2))


def test_database_and_topic_agree_after_a_kill_at_every_step(node: NodeProcess, tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    killed_at = 0
    for step in range(1, STEPS_MAX):
        code = outcome(crashing.work, node.bootstrap, path, str(step), step)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed_at = step
        outcome(crashing.recover, node.bootstrap, path, step % RECOVERY_STEPS)  # may be killed as well
    else:
        pytest.fail("it takes more steps than expected")
    assert outcome(crashing.recover, node.bootstrap, path, NEVER) == 0

    rows, records = both_sides(node, path)

    assert killed_at > 40
    assert records == Counter(dict.fromkeys(rows, 2))
    assert not [name for name in rows if name.endswith("never")]
    assert {f"{killed_at + 1}/first", f"{killed_at + 1}/second"} <= rows
    assert not {"1/first", "1/second"} & rows, "the first was killed before it did anything"
    assert len([name for name in rows if name.endswith("first")]) > killed_at // 3


def test_a_kill_at_every_step_of_the_recovery_changes_no_decision(node: NodeProcess, tmp_path: Path) -> None:
    """Once with a transaction that the database has committed, once with one that it has not."""
    path = str(tmp_path / "shop.db")
    commits = 0
    for decided in ("before", "after"):
        for step in range(1, STEPS_MAX):
            run = f"{decided}-{step}"
            assert outcome(crashing.work_until_commit, node.bootstrap, path, run, decided) == -signal.SIGKILL
            code = outcome(crashing.recover, node.bootstrap, path, step)
            commits += decided == "after"
            if code == 0:
                break
            assert code == -signal.SIGKILL
            assert outcome(crashing.recover, node.bootstrap, path, NEVER) == 0
        assert step >= RECOVERY_STEPS // 2

    rows, records = both_sides(node, path)

    assert len(rows) == commits
    assert all(name.startswith("after") for name in rows)
    assert records == Counter(dict.fromkeys(rows, 2))


@pytest.mark.parametrize(("decided", "wrongly_commits"), [("before", True), ("after", False)])
def test_a_recovery_that_does_not_ask_the_database_would_be_found(
    node: NodeProcess, tmp_path: Path, decided: str, wrongly_commits: bool
) -> None:
    path = str(tmp_path / "shop.db")
    outcome(crashing.work_until_commit, node.bootstrap, path, "x", decided)
    assert outcome(crashing.recover_wrongly, node.bootstrap, path, wrongly_commits) == 0
    rows, records = both_sides(node, path)
    assert set(records) != rows

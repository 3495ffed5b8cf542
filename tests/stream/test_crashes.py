"""Streams that are killed, and streams that are asked to end."""

import multiprocessing
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.admin import Admin
from tests.dying import NEVER
from tests.interop.node_process import NodeProcess
from tests.interop.test_confluent_transactions import read_all
from tests.interop.waiting import eventually
from tests.stream import crashing

RECORDS = 150
STEPS = 24
"""More than a transaction of three records with six outputs has: it is killed in the second as well."""

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.stream.crashing"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", "--no-http", "--set", "groups.group_initial_rebalance_delay_ms=0") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 2, 1)]).values():
            future.result(30)
        yield running


def fill(node: NodeProcess) -> None:
    source = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(RECORDS):
        source.produce("in", b"%d" % number)
    assert source.flush(30) == 0


def test_every_output_is_there_once_after_a_kill_at_every_step(node: NodeProcess) -> None:
    fill(node)
    for step in [*range(1, STEPS), NEVER]:
        process = processes.Process(target=crashing.work, args=(node.bootstrap, "in", "out", step))
        process.start()
        process.join(60)
        assert process.exitcode == (0 if step == NEVER else -signal.SIGKILL), step

    found = Counter(read_all(node.bootstrap, "out", 2))

    wanted = [b"%d" % number for number in range(RECORDS)]
    assert found == Counter([*wanted, *(value + b" again" for value in wanted)])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_soon(node: NodeProcess, number: signal.Signals) -> None:
    fill(node)
    command = [sys.executable, "-m", "tests.cluster.streamer", node.bootstrap, "in", "out", "the-copier"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as streamer:
        eventually(lambda: len(read_all(node.bootstrap, "out", 2)) == RECORDS, within_s=60, what="the copies")
        streamer.send_signal(number)
        _, said = streamer.communicate(timeout=20)
    assert streamer.returncode == 0, said
    assert b"Traceback" not in said
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        assert sum(line.lag.records or 0 for line in admin.group_lag("copy-in")) == 0

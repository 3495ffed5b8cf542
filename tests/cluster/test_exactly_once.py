"""A chain of topics through a transactional program, while brokers and programs are killed: every record arrives once.

The program is one on librdkafka alone, and one on `ottla.stream`.
"""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.processes import ClusterProcesses
from tests.interop.test_confluent_transactions import read_all
from tests.interop.waiting import eventually

KILLS = int(os.environ.get("KILLS_OF_EACH", "3"))
"""Of brokers, and of copiers."""
RECORDS = 400
PARTITIONS = 4


class Copier:
    """A process that copies, over any number of kills."""

    def __init__(self, directory: Path, module: str, bootstrap: str) -> None:
        self._log = directory / "copier.log"
        self._command = [sys.executable, "-m", module, bootstrap, "in", "out", "the-copier"]
        self.start()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def keep_alive(self) -> None:
        """One that was fenced or gave up is started again, as anything would that watches over it."""
        if self._process.poll() is not None:
            self.start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5_000:]


@contextmanager
def copier(directory: Path, module: str, bootstrap: str) -> Iterator[Copier]:
    running = Copier(directory, module, bootstrap)
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.parametrize("module", ["tests.cluster.copier", "tests.cluster.streamer"])
def test_every_record_arrives_once_while_brokers_and_copiers_are_killed(tmp_path: Path, module: str) -> None:
    with ClusterProcesses(tmp_path, 3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = {"min.insync.replicas": "2"}
        topics = [NewTopic(name, PARTITIONS, 3, config=settings) for name in ("in", "out")]
        for future in admin.create_topics(topics, operation_timeout=30).values():
            future.result(30)
        values = [b"%d" % number for number in range(RECORDS)]
        source = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        victims = itertools.cycle(cluster.nodes)
        with copier(tmp_path, module, cluster.bootstrap) as copies:
            for number in range(KILLS):
                for value in values[number * RECORDS // KILLS : (number + 1) * RECORDS // KILLS]:
                    source.produce("in", value, key=value)
                source.poll(0)
                victim = cluster.node(next(victims))
                victim.kill()
                source.flush(random.Random(number).uniform(0.2, 2))
                copies.kill()
                copies.start()
                victim.start()
                copies.keep_alive()
            assert source.flush(60) == 0

            def arrived() -> bool:
                copies.keep_alive()
                return len(read_all(cluster.bootstrap, "out", PARTITIONS)) >= RECORDS

            eventually(arrived, within_s=90, what=f"{RECORDS} records\n{copies.log()}")
        found = Counter(read_all(cluster.bootstrap, "out", PARTITIONS))

    assert {value: count for value, count in found.items() if count > 1} == {}
    assert set(found) == set(values)

"""A chain of topics through a transactional program, while brokers and programs are killed: records arrive once."""

import itertools
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.processes import ClusterProcesses
from tests.interop.test_confluent_transactions import read_all
from tests.interop.waiting import eventually

SOURCE, TARGET = "in", "out"
RECORDS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What copies. `BOOTSTRAP` in its command line stands for the cluster's address."""

    command: Sequence[str]
    partitions: int = 4
    """Of the topic that it reads."""


class Copier:
    """A process that copies, over any number of kills."""

    def __init__(self, directory: Path, program: Program, bootstrap: str) -> None:
        self._log = directory / "copier.log"
        self._command = [bootstrap if word == "BOOTSTRAP" else word for word in program.command]
        self.start()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def keep_alive(self) -> None:
        """One that was fenced, gave up or thinks that it is done is started again, as anything would that watches
        over it.
        """
        if self._process.poll() is not None:
            self.start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5_000:]


@contextmanager
def copier(directory: Path, program: Program, bootstrap: str) -> Iterator[Copier]:
    running = Copier(directory, program, bootstrap)
    try:
        yield running
    finally:
        running.kill()


class Chain:
    def __init__(self, cluster: ClusterProcesses, program: Program) -> None:
        self._cluster = cluster
        self._partitions = program.partitions
        self.values = [b"%d" % number for number in range(RECORDS)]
        self._source = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        settings = {"min.insync.replicas": "2"}
        topics = [NewTopic(name, self._partitions, 3, config=settings) for name in (SOURCE, TARGET)]
        for future in admin.create_topics(topics, operation_timeout=30).values():
            future.result(30)

    def arrived(self) -> list[bytes]:
        return read_all(self._cluster.bootstrap, TARGET, self._partitions)

    def run(self, copies: Copier, *, kills: int, waits: bool) -> None:
        victims = itertools.cycle(self._cluster.nodes)
        for number in range(kills):
            self._send(self.values[number * RECORDS // kills : (number + 1) * RECORDS // kills])
            if waits:
                self._wait_for(copies, number * RECORDS // kills + 1, within_s=120)
            victim = self._cluster.node(next(victims))
            victim.kill()
            self._source.flush(random.Random(number).uniform(0.2, 2))
            copies.kill()
            copies.start()
            victim.start()
            copies.keep_alive()
        assert self._source.flush(60) == 0
        self._wait_for(copies, RECORDS, within_s=120)

    def _send(self, values: Sequence[bytes]) -> None:
        for value in values:
            self._source.produce(SOURCE, value, key=value)
        self._source.poll(0)

    def _wait_for(self, copies: Copier, count: int, *, within_s: float) -> None:
        def have_arrived() -> bool:
            copies.keep_alive()
            return len(self.arrived()) >= count

        eventually(have_arrived, within_s=within_s, what=f"{count} records\n{copies.log()}")


def assert_every_record_arrives_once(directory: Path, program: Program, *, kills: int, waits: bool) -> None:
    """`kills` of brokers, and as many of the program. `waits`: each comes when the program has done something since
    the last.
    """
    with ClusterProcesses(directory, 3) as cluster:
        chain = Chain(cluster, program)
        with copier(directory, program, cluster.bootstrap) as copies:
            chain.run(copies, kills=kills, waits=waits)
        found = Counter(chain.arrived())
    assert {value: count for value, count in found.items() if count > 1} == {}
    assert set(found) == set(chain.values)

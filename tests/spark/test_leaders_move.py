"""Three nodes, of which one after the other is killed (kill -9) while a query reads, writes and commits.

The node that dies leads a partition that is read or written, or coordinates the transactions: over the batches each
node dies once, at another step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.pytest_plugin import Clients
from pyspark_ottla.decoding import COLUMNS, Range
from pyspark_ottla.fetching import FetchSettings, read_range
from pyspark_ottla.offsets import LATEST, READ_COMMITTED, list_offsets
from pyspark_ottla.two_phase import TwoPhase
from pyspark_ottla.wire import Cluster
from tests.cluster.processes import ClusterProcesses
from tests.interop.waiting import eventually
from tests.spark.reading import Topics
from tests.spark.test_markers import Query

TOPIC = "orders"
PARTITIONS = 3
ROWS_PER_BATCH = 300
SMALL_FETCHES = FetchSettings(
    isolation=READ_COMMITTED,
    partition_bytes_max=2_000,
    wait_ms_max=100,
    timeout_s=60,
    fails_on_data_loss=True,
    checks_crcs=True,
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, 3) as nodes:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic], operation_timeout=30)[TOPIC].result(30)
        yield nodes


def rows(batch: int) -> list[str]:
    return [f"{batch:02d}-{number:04d}" for number in range(ROWS_PER_BATCH)]


def read(cluster: Cluster, nodes: ClusterProcesses) -> list[str]:
    """Everything, partition by partition; the leader of the first is killed after its first answer."""
    found: list[str] = []
    leader = None
    for partition in range(PARTITIONS):
        topic = cluster.persist(lambda: cluster.topics([TOPIC]))[TOPIC]
        end = list_offsets(cluster, {(TOPIC, partition): LATEST}, READ_COMMITTED)[TOPIC, partition]
        wanted = Range(topic=TOPIC, topic_id=topic.topic_id, partition=partition, start=0, end=end)
        for batch in read_range(cluster, wanted, COLUMNS, SMALL_FETCHES):
            if leader is None:
                leader = nodes.node(topic.leaders[partition])
                leader.kill()
            found += [value.decode() for value in batch.column("value").to_pylist()]
    assert leader is not None
    return sorted(found)


def test_leaders_and_coordinators_may_die_at_any_step(nodes: ClusterProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(Clients(nodes.bootstrap), "moving")
    victims = itertools.cycle(nodes.nodes)
    struck: list[str] = []

    def strike(step: str) -> None:
        nodes.node(next(victims)).kill()
        struck.append(step)

    commit_one = TwoPhase._commit_one

    def struck_commit(protocol: TwoPhase, *arguments: object) -> None:
        if batch == 2 and struck[-1] != "after the decision":
            strike("after the decision")
        commit_one(protocol, *arguments)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(TwoPhase, "_commit_one", struck_commit)
    with Cluster(nodes.bootstrap, timeout_s=60) as cluster:
        query = Query(topics, cluster, topic=TOPIC)
        for batch in range(3):
            halves = rows(batch)[::2], rows(batch)[1::2]

            def written(values: list[str], batch: int = batch) -> Iterator[pa.RecordBatch]:
                yield pa.RecordBatch.from_pydict({"value": values[:50]})
                if batch == 0:
                    strike("while a task writes")
                yield pa.RecordBatch.from_pydict({"value": values[50:]})

            first = query.writer.write_task(cluster, written(halves[0]), query.name, batch, 0)
            second = query.task(1, halves[1], batch)
            if batch == 1:
                strike("before the commit")
            query.commit([first, second], batch)
            for node in nodes.nodes.values():
                if not node.alive():
                    node.start()
            nodes.until_brokers(1, 2, 3)
        expected = sorted(value for batch in range(3) for value in rows(batch))

        assert struck == ["while a task writes", "before the commit", "after the decision"]
        assert read(cluster, nodes) == expected
        eventually(lambda: topics.open_transactions() == [], what="no transaction is open")
    topics.node.close()

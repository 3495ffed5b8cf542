"""Tasks and drivers while the node is killed (kill -9) and started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.client.admin import Admin
from ottla.protocol.compression import Compression
from pyspark_ottla.decoding import COLUMNS, Range
from pyspark_ottla.encoding import Encoder
from pyspark_ottla.fetching import FetchSettings, read_range
from pyspark_ottla.offsets import READ_COMMITTED, list_offsets
from pyspark_ottla.producing import Sender
from pyspark_ottla.transactions import open_transactions
from pyspark_ottla.two_phase import Prepared, TwoPhase
from pyspark_ottla.wire import Cluster
from tests.interop.node_process import NodeProcess

TOPIC = "orders"
LATEST = -1
SMALL_FETCHES = FetchSettings(
    isolation=READ_COMMITTED,
    partition_bytes_max=2_000,
    wait_ms_max=100,
    timeout_s=60,
    fails_on_data_loss=True,
    checks_crcs=True,
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path)
    process.environment = {"OTTLA_TRANSACTIONS_TRANSACTION_TWO_PHASE_COMMIT_ENABLE": "true"}
    with process:
        with Admin(bootstrap_servers=process.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=1)
        yield process


@pytest.fixture
def cluster(node: NodeProcess) -> Iterator[Cluster]:
    with Cluster(node.bootstrap, timeout_s=60) as cluster:
        yield cluster


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


def rows(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [b"%05d" % number for number in range(start, end)]})


def read(cluster: Cluster, node: NodeProcess | None = None) -> list[bytes]:
    """Everything that is committed; `node` is killed and started again after the first answer."""
    topic = cluster.persist(lambda: cluster.topics([TOPIC]))[TOPIC]
    end = list_offsets(cluster, {(TOPIC, 0): LATEST}, READ_COMMITTED)[TOPIC, 0]
    wanted = Range(topic=TOPIC, topic_id=topic.topic_id, partition=0, start=0, end=end)
    found: list[bytes] = []
    for batch in read_range(cluster, wanted, COLUMNS, SMALL_FETCHES):
        if node is not None and not found:
            restart(node)
        found += batch.column("value").to_pylist()
    return found


def test_a_batch_survives_the_node_while_it_is_written_and_committed_and_read(
    node: NodeProcess, cluster: Cluster
) -> None:
    protocol = TwoPhase(cluster, "query", 0)
    begun = protocol.begin(0)
    sender = Sender(cluster, begun.writer, transactional_id=protocol.transactional_id(0), compression=Compression.NONE)
    encoder = Encoder(TOPIC, lambda _: 1, 1_000)
    sender.send(encoder.encode(rows(0, 100)))
    restart(node)
    sender.send(encoder.encode(rows(100, 1_000)))
    sender.flush()
    prepared = Prepared(task=0, decider=begun.decider, is_decided=False, writer=begun.writer, topic=TOPIC)
    restart(node)
    assert read(cluster) == []

    TwoPhase(cluster, "query", 0).commit([prepared])
    restart(node)

    assert TwoPhase(cluster, "query", 0).begin(0).is_decided
    assert read(cluster, node) == rows(0, 1_000).column("value").to_pylist()
    assert open_transactions(cluster, "ottla-spark-") == []

"""`format("ottla")` on a real Apache Kafka: the same source and sink, exactly once without commits in two phases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.servers import Kafka

from ottla.testing.pytest_plugin import Clients
from pyspark_ottla.two_phase import BatchLostError
from pyspark_ottla.wire import Cluster
from tests.interop.waiting import eventually
from tests.spark.reading import Topics
from tests.spark.test_markers import Query, commit_and_die

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # pyspark's own

REPOSITORY = Path(__file__).parents[2]
HEADERS = [("trace", b"1"), ("empty", None)]


def values(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    server = Kafka(tmp_path_factory.mktemp("kafka") / "server", durable=False)
    server.start()
    clients = Clients(server.bootstrap)
    yield clients
    clients.close()
    server.stop()


@pytest.fixture
def topics(kafka: Clients, request: pytest.FixtureRequest) -> Iterator[Topics]:
    topics = Topics(kafka, request.node.name)
    with topics.opened:
        yield topics
        assert topics.open_transactions() == []


@pytest.fixture
def query(topics: Topics) -> Iterator[Query]:
    with Cluster(topics.bootstrap, timeout_s=20) as cluster:
        yield Query(topics, cluster)


def read(spark: Any, topics: Topics, topic: str, **given: str) -> Any:
    return (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", topic)
        .options(**given)
        .load()
    )


def test_jobs_write_and_read_all_columns(spark: Any, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    rows = [(b"k%d" % number, b"v%d" % number, number % 3, HEADERS) for number in range(300)]
    schema = "key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"
    frame = spark.createDataFrame(rows, schema).repartition(2)
    for compression in ("none", "lz4", "zstd"):
        frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", topics.bootstrap).option(
            "kafka.compression.type", compression
        ).option("topic", topic).save()

    found = read(spark, topics, topic, includeHeaders="true").collect()

    assert sorted((bytes(row.key), bytes(row.value), row.partition) for row in found) == sorted(
        row[:3] for row in rows * 3
    )
    assert {tuple((header.key, header.value) for header in row.headers) for row in found} == {
        (("trace", b"1"), ("empty", None))
    }
    assert {row.topic for row in found} == {topic}


def test_a_stream_copies_in_batches_and_commits_for_its_group(spark: Any, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    topics.fill(source, values(500), **{"compression.type": "gzip"})
    query = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200)
        .option("group.id", f"{source}-group")
        .load()
        .select("key", "value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert topics.committed(target) == values(500)
    assert len(query.recentProgress) >= 3
    assert sum(found.lag.records or 0 for found in topics.node.admin().group_lag(f"{source}-group")) == 0


def test_a_query_that_is_killed_writes_every_row_once(topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    topics.fill(source, values(600))

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.spark.copy_query", topics.bootstrap, source, target, str(tmp_path)]
        with open(tmp_path / "query.log", "ab") as log:
            return subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True)

    process = start()
    eventually(lambda: topics.committed(target) or process.poll() is not None, within_s=120)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    seen = topics.committed(target)
    assert 0 < len(seen) < 600
    assert len(seen) == len(set(seen))
    last = start()

    assert last.wait(300) == 0, (tmp_path / "query.log").read_text()
    assert topics.committed(target) == values(600)
    assert "the same rows in the same tasks" in (tmp_path / "query.log").read_text()


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_batch_whose_driver_died_while_it_committed_is_completed(
    query: Query, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    commit_and_die(query, query.run(["a"], ["b"], ["c"]), monkeypatch, commits=committed)
    assert len(query.committed()) == committed

    for _ in range(2):
        query.commit(query.run(["a"], ["b"], ["c"]))

    assert query.committed() == ["a", "b", "c"]


def test_an_orphan_can_not_commit_and_an_abort_undoes_nothing(query: Query) -> None:
    orphan = query.run(["a"], ["b"])
    again = query.run(["a"], ["b"])
    with pytest.raises(BatchLostError):
        query.commit(orphan)
    query.commit(again)
    query.writer.abort(again, 0)

    assert query.committed() == ["a", "b"]

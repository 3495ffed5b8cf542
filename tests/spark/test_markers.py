"""The sink on a node that forbids commits in two phases: tasks and drivers stop, come back and are late."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ottla.testing.pytest_plugin import OttlaNode
from pyspark_ottla.markers import Markers, RowsMovedError
from pyspark_ottla.sink import SinkOptions, StreamWriter, Written
from pyspark_ottla.two_phase import BatchLostError
from pyspark_ottla.wire import Cluster
from tests.spark.reading import Topics

VALUES = StructType([StructField("value", StringType())])


class Query:
    """Runs batches of a query task by task."""

    def __init__(self, topics: Topics, cluster: Cluster, name: str | None = None, topic: str | None = None) -> None:
        self.topics, self._cluster = topics, cluster
        self.topic = topic or topics.create(partitions=2)
        self.name = name or uuid.uuid4().hex
        given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": self.topic}
        self.writer = StreamWriter(SinkOptions.parse(given, VALUES))

    def task(self, task: int, values: list[str], batch: int = 0) -> Written:
        rows = iter([pa.RecordBatch.from_pydict({"value": values})] if values else [])
        return self.writer.write_task(self._cluster, rows, self.name, batch, task)

    def run(self, *tasks: list[str], batch: int = 0) -> list[Written]:
        return [self.task(number, values, batch) for number, values in enumerate(tasks)]

    def commit(self, messages: list[Written], batch: int = 0) -> None:
        self.writer.commit(messages, batch)

    def committed(self) -> list[str]:
        return [value.decode() for value in self.topics.committed(self.topic)]

    def open(self) -> list[str]:
        return [name for name in self.topics.open_transactions() if self.name in name]


@pytest.fixture
def query(plain_node: OttlaNode, request: pytest.FixtureRequest) -> Iterator[Query]:
    topics = Topics(plain_node, request.node.name)
    with topics.opened, Cluster(topics.bootstrap, timeout_s=20) as cluster:
        yield Query(topics, cluster)


def commit_and_die(query: Query, messages: list[Written], monkeypatch: pytest.MonkeyPatch, *, commits: int) -> None:
    """The driver is killed when so many tasks are committed."""
    commit_one, done = Markers._commit_one, iter(range(commits))

    def dying(protocol: Markers, *arguments: object) -> None:
        if next(done, None) is None:
            raise KeyboardInterrupt
        commit_one(protocol, *arguments)  # type: ignore[arg-type]  # handed through

    with monkeypatch.context() as patched:
        patched.setattr(Markers, "_commit_one", dying)
        with pytest.raises(KeyboardInterrupt):
            query.commit(messages)


def test_the_cluster_is_asked_what_it_offers_and_what_is_assumed_is_said(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    messages = query.run(["a", "b"], ["c"], [])
    assert all(message.marked is not None for message in messages)
    assert query.committed() == []

    query.commit(messages)

    assert query.committed() == ["a", "b", "c"]
    assert query.open() == []
    assert "the same rows in the same tasks" in caplog.text


def test_batches_follow_each_other(query: Query) -> None:
    for batch in range(3):
        query.commit(query.run([f"{batch}a"], [f"{batch}b"], batch=batch), batch)

    assert query.committed() == ["0a", "0b", "1a", "1b", "2a", "2b"]


def test_a_batch_that_is_run_again_after_its_commit_adds_nothing(query: Query) -> None:
    for _ in range(2):
        query.commit(query.run(["a"], ["b"]))

    assert query.committed() == ["a", "b"]


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_batch_whose_driver_died_while_it_committed_is_completed(
    query: Query, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    messages = query.run(["a"], ["b"], [], ["c"])
    commit_and_die(query, messages, monkeypatch, commits=committed)
    assert len(query.committed()) == committed

    query.commit(query.run(["a"], ["b"], [], ["c"]))

    assert query.committed() == ["a", "b", "c"]
    assert query.open() == []


def test_an_orphan_can_not_commit_what_a_task_of_the_next_run_has_taken_over(query: Query) -> None:
    orphan = query.run(["a"], ["b"])
    again = query.run(["a"], ["b"])

    with pytest.raises(BatchLostError):
        query.commit(orphan)
    assert query.committed() == []
    query.commit(again)

    assert query.committed() == ["a", "b"]


def test_of_rival_attempts_of_a_task_the_last_to_begin_counts(query: Query) -> None:
    """As with speculation."""
    first, rival = query.task(0, ["a"]), query.task(0, ["a"])

    with pytest.raises(BatchLostError):
        query.commit([first])
    query.commit([rival])
    query.writer.abort([first], 0)

    assert query.committed() == ["a"]
    assert query.open() == []


def test_an_abort_of_a_committed_batch_undoes_nothing_and_one_of_an_open_batch_leaves_nothing(query: Query) -> None:
    done = query.run(["a"])
    query.commit(done)
    query.writer.abort(done, 0)
    query.writer.abort(query.run(["b"], batch=1), 1)

    assert query.committed() == ["a"]
    assert query.open() == []


def test_another_number_of_tasks_after_a_part_was_committed_is_an_error(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = query.run([], ["a"], ["b"], ["c"])
    commit_and_die(query, messages, monkeypatch, commits=1)

    with pytest.raises(RowsMovedError, match="has 1 tasks now, and had 4"):
        query.commit(query.run(["a", "b", "c"]))

    assert query.committed() == ["a"]


def test_another_number_of_tasks_is_fine_when_nothing_was_committed(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = query.run(["a"], ["b"], ["c"])
    commit_and_die(query, messages, monkeypatch, commits=0)

    query.commit(query.run(["a", "b", "c"]))

    assert query.committed() == ["a", "b", "c"]
    assert query.open() == []


def test_other_rows_in_a_task_that_was_committed_are_an_error(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = query.run(["a"], ["b", "c"])
    commit_and_die(query, messages, monkeypatch, commits=1)

    with pytest.raises(RowsMovedError, match="task 0 has 2 rows now, and had 1"):
        query.run(["a", "b"], ["c"])


def test_a_query_does_not_change_its_protocol_in_the_middle_of_a_batch(query: Query, topics: Topics) -> None:
    """Both directions; each node has what the other's protocol left there."""
    with Cluster(topics.bootstrap, timeout_s=20) as cluster:
        other = Query(topics, cluster)
        protocol = Markers(cluster, other.name, 0, 60_000)
        other.commit(other.run(["a"]))
        with pytest.raises(RowsMovedError, match="committed in two phases"):
            protocol.begin(0)
        protocol = Markers(cluster, other.name, 1, 60_000)
        begun = protocol.begin(0)
        assert begun.rows is None
        protocol._note_count(1, other.topic)
        with pytest.raises(BatchLostError, match="begun without commits in two phases"):
            other.task(0, ["b"], batch=1)

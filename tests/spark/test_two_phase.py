"""The protocol of the sink on a real node, with tasks and drivers that stop, come back and are late at every step."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from ottla.protocol.compression import Compression
from pyspark_ottla.encoding import Encoder
from pyspark_ottla.producing import Identity, Sender
from pyspark_ottla.transactions import FENCED, NOBODY, end, take_over
from pyspark_ottla.two_phase import BatchLostError, Begun, Prepared, TwoPhase
from pyspark_ottla.wire import Cluster, WireError
from tests.spark.reading import Topics


class Query:
    """Runs batches of a query step by step."""

    def __init__(self, topics: Topics, cluster: Cluster) -> None:
        self.topic = topics.create(partitions=2)
        self._topics, self._cluster = topics, cluster
        self.name = uuid.uuid4().hex

    def protocol(self, batch: int = 0, planned: Identity | None = None) -> TwoPhase:
        return TwoPhase(self._cluster, self.name, batch, planned)

    def write(self, begun: Begun, task: int, values: list[bytes]) -> None:
        sender = Sender(
            self._cluster,
            begun.writer,
            transactional_id=self.protocol().transactional_id(task),
            compression=Compression.LZ4,
        )
        encoder = Encoder(self.topic, lambda _: 2, 100_000)
        sender.send(encoder.encode(pa.RecordBatch.from_pydict({"value": values})))
        sender.flush()

    def task(self, task: int, values: list[bytes], batch: int = 0) -> Prepared:
        begun = self.protocol(batch).begin(task)
        if begun.is_decided:
            return Prepared(task=task, decider=begun.decider, is_decided=True)
        if values:
            self.write(begun, task, values)
        writer = begun.writer if values else None
        return Prepared(task=task, decider=begun.decider, is_decided=False, writer=writer, topic=self.topic)

    def open(self) -> list[str]:
        return [name for name in self._topics.open_transactions() if self.name in name]

    def committed(self) -> list[bytes]:
        return self._topics.committed(self.topic)


@pytest.fixture
def query(topics: Topics, cluster: Cluster) -> Query:
    return Query(topics, cluster)


def test_a_batch_becomes_visible_when_it_is_committed(query: Query) -> None:
    prepared = [query.task(0, [b"a", b"b"]), query.task(1, [b"c"]), query.task(2, [])]
    assert query.committed() == []

    query.protocol().commit(prepared)

    assert query.committed() == [b"a", b"b", b"c"]
    assert query.open() == []


def test_a_batch_that_is_run_again_after_its_commit_adds_nothing(query: Query) -> None:
    query.protocol().commit([query.task(0, [b"a"]), query.task(1, [b"b"])])

    again = [query.task(0, [b"a"]), query.task(1, [b"b"])]
    query.protocol().commit(again)

    assert all(message.is_decided for message in again)
    assert query.committed() == [b"a", b"b"]


def test_the_next_batch_is_written(query: Query) -> None:
    for batch in range(3):
        query.protocol(batch).commit([query.task(0, [b"%d" % batch], batch)])

    assert query.committed() == [b"0", b"1", b"2"]


def test_a_driver_that_dies_before_the_decision_leaves_a_batch_that_is_written_anew(query: Query) -> None:
    query.task(0, [b"a"])
    query.task(1, [b"b"])

    query.protocol().commit([query.task(0, [b"a", b"b"])])

    assert query.committed() == [b"a", b"b"]
    assert query.open() == []


def test_a_driver_that_dies_right_after_the_decision_has_its_batch_committed_by_the_next(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = query.protocol()
    prepared = [query.task(0, [b"a"]), query.task(1, [b"b"])]

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TwoPhase, "_commit_one", die)
        with pytest.raises(KeyboardInterrupt):
            protocol.commit(prepared)
    assert query.committed() == []

    query.protocol().commit([query.task(0, [b"a"])])

    assert query.committed() == [b"a", b"b"]
    assert query.open() == []


def test_an_orphan_can_not_decide_once_a_task_of_the_next_run_has_begun(query: Query) -> None:
    orphan = [query.task(0, [b"a"]), query.task(1, [])]
    query.protocol().begin(1)

    with pytest.raises(BatchLostError):
        query.protocol().commit(orphan)
    assert query.committed() == []

    query.protocol().commit([query.task(0, [b"a"]), query.task(1, [])])
    assert query.committed() == [b"a"]


def test_an_orphan_that_decides_first_is_respected_by_the_next_run(query: Query) -> None:
    query.protocol().commit([query.task(0, [b"a"])])

    assert query.task(0, [b"a"]).is_decided


def test_a_late_attempt_writes_nothing_once_another_has_taken_over(query: Query) -> None:
    late = query.protocol().begin(0)
    prepared = query.task(0, [b"a"])

    with pytest.raises(WireError):
        query.write(late, 0, [b"a"])
    query.protocol().commit([prepared])

    assert query.committed() == [b"a"]


def test_a_late_attempt_can_not_abort_what_was_decided(query: Query, cluster: Cluster) -> None:
    """It has taken over after the task had written, and before the driver did."""
    prepared = query.task(0, [b"a"])
    name = query.protocol().transactional_id(0)
    late = take_over(cluster, name)
    query.protocol().commit([prepared])

    with pytest.raises(WireError):
        end(cluster, name, late.identity, commits=False)

    assert query.committed() == [b"a"]


def test_a_batch_whose_transaction_was_aborted_by_a_late_attempt_is_not_decided(query: Query) -> None:
    prepared = [query.task(0, [b"a"]), query.task(1, [b"b"])]
    query.protocol().begin(0)

    with pytest.raises(BatchLostError):
        query.protocol().commit(prepared)
    query.protocol().commit([query.task(0, [b"a"]), query.task(1, [b"b"])])

    assert query.committed() == [b"a", b"b"]


def test_a_task_that_fails_gives_its_transaction_up(query: Query) -> None:
    begun = query.protocol().begin(0)
    query.write(begun, 0, [b"half"])
    assert query.open() != []

    query.protocol().give_up(0, begun.writer)

    assert query.open() == []
    assert query.committed() == []


def test_an_abort_ends_what_is_open(query: Query) -> None:
    query.task(0, [b"a"])
    query.task(1, [b"b"])

    query.protocol().abort(2)

    assert query.open() == []
    assert query.committed() == []


def test_an_abort_of_a_committed_batch_undoes_nothing(query: Query) -> None:
    query.protocol().commit([query.task(0, [b"a"])])

    query.protocol().abort(2)

    assert query.committed() == [b"a"]


def test_a_task_that_has_begun_when_the_batch_is_aborted_can_not_write_any_more(query: Query) -> None:
    begun = query.protocol().begin(1)

    query.protocol().abort(2)

    with pytest.raises(WireError) as refused:
        query.write(begun, 1, [b"late"])
    assert refused.value.code in FENCED
    assert query.open() == []


def test_a_task_that_begins_after_the_batch_was_aborted_is_refused_and_one_of_the_next_run_is_not(query: Query) -> None:
    planned = query.protocol().last_abort()
    assert planned == NOBODY
    query.protocol(planned=planned).begin(0)

    query.protocol().abort(2)

    with pytest.raises(BatchLostError, match="batch 0 was aborted before this task began"):
        query.protocol(planned=planned).begin(1)
    again = query.protocol().last_abort()
    begun = query.protocol(planned=again).begin(1)
    query.write(begun, 1, [b"again"])
    query.protocol().abort(2)
    with pytest.raises(BatchLostError):
        query.protocol(planned=again).begin(0)
    assert query.open() == []


def test_a_late_task_takes_nothing_from_the_run_that_followed_the_abort(query: Query) -> None:
    planned = query.protocol().last_abort()
    query.protocol().abort(1)
    prepared = query.task(0, [b"a"])

    with pytest.raises(BatchLostError):
        query.protocol(planned=planned).begin(0)
    query.protocol().commit([prepared])

    assert query.committed() == [b"a"]


def test_transactions_of_tasks_that_are_no_more_are_aborted(query: Query) -> None:
    """A run with five tasks was killed; the next has one."""
    begun = query.protocol().begin(4)
    query.write(begun, 4, [b"left over"])

    query.protocol().commit([query.task(0, [b"a"])])

    assert query.open() == []
    assert query.committed() == [b"a"]

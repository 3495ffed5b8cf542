"""The sink: `df.write` and `df.writeStream` with format("ottla").

Spark makes a writer in a process beside the driver, sends copies to the tasks, and asks yet another process to commit:
only the messages of the tasks carry anything from one to the other.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, NullType, ShortType, StringType, StructType

from ottla.errors import ErrorCode
from ottla.protocol.compression import Compression
from pyspark_ottla.encoding import Encoder, gathered
from pyspark_ottla.markers import Marked, Markers
from pyspark_ottla.options import Options, OptionsError
from pyspark_ottla.producing import Identity, Sender, plain_identity
from pyspark_ottla.transactions import NOT_OURS, end, start
from pyspark_ottla.two_phase import BatchLostError, Begun, Prepared, TwoPhase
from pyspark_ottla.wire import Cluster, WireError
from pyspark_ottla.workers import connected

__all__ = ["BatchWriter", "SinkOptions", "StreamWriter"]

DEFAULT_BATCH_BYTES: Final = 512 * 1024
GATHERED_BYTES: Final = 4 * 1024 * 1024
"""Of rows that are encoded at once: the 10,000 that Spark hands over are few for the partitions of a topic."""
DEFAULT_TIMEOUT_MS: Final = 120_000
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 600_000
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
COMPRESSIONS: Final = {codec.name.lower(): codec.value for codec in Compression}
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"

BLOBS: Final = (BinaryType, StringType, NullType)
NUMBERS: Final = (IntegerType, ShortType, LongType, NullType)
COLUMN_TYPES: Final = {
    "key": BLOBS,
    "value": BLOBS,
    "topic": (StringType,),
    "partition": NUMBERS,
    "headers": (ArrayType,),
}

NO_TWO_PHASES: Final = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)
"""How a cluster says that it does not commit in two phases: it forbids it, or does not know it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    bootstrap: str
    topic: str | None
    is_exactly_once: bool
    compression: Compression
    batch_bytes: int
    timeout_ms: int
    transaction_timeout_ms: int
    client_id: str
    checkpoint: str | None = None
    """Where Spark keeps the query's state, if that was said here and not in Spark's settings."""

    @classmethod
    def parse(cls, given: Mapping[str, str], schema: StructType) -> SinkOptions:
        options = Options(given)
        delivery = (options.text("delivery") or EXACTLY_ONCE).lower()
        if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
            raise OptionsError(f"delivery: {delivery!r} is neither {EXACTLY_ONCE} nor {AT_LEAST_ONCE}")
        topic = options.text("topic")
        _check_columns(schema, topic)
        number = options.number
        return cls(
            bootstrap=options.bootstrap,
            topic=topic,
            is_exactly_once=delivery == EXACTLY_ONCE,
            compression=Compression(options.choice("compression.type", COMPRESSIONS, "none")),
            batch_bytes=number("batch.size", DEFAULT_BATCH_BYTES, kafka=True) or 1,
            timeout_ms=number("request.timeout.ms", DEFAULT_TIMEOUT_MS, kafka=True) or DEFAULT_TIMEOUT_MS,
            transaction_timeout_ms=number("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS, kafka=True) or 1,
            client_id=options.client_id,
            checkpoint=options.text("checkpointLocation"),
        )


def _check_columns(schema: StructType, topic: str | None) -> None:
    names = schema.fieldNames()
    if "value" not in names:
        raise OptionsError(f"the rows have no column named value, only {', '.join(names)}")
    if topic is None and "topic" not in names:
        raise OptionsError("neither the option topic nor a column named topic says where rows go")
    for field in schema.fields:
        if field.name not in COLUMN_TYPES:
            raise OptionsError(f"column {field.name} can't be written: there are {', '.join(COLUMN_TYPES)}")
        if not isinstance(field.dataType, COLUMN_TYPES[field.name]):
            raise OptionsError(f"column {field.name} can't be of type {field.dataType.simpleString()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What a task did. The ids are here since a writer that commits knows nothing else of the query."""

    query: str
    prepared: Prepared | None = None
    """A stream's, exactly once."""
    marked: Marked | None = None
    """The same on a cluster without commits in two phases."""
    transactional_id: str | None = None
    writer: Identity | None = None
    """A batch job's, exactly once."""


class _Rows(NamedTuple):
    """What a task wrote."""

    rows: int
    topics: set[str]

    @property
    def topic(self) -> str | None:
        return min(self.topics, default=None)


class _Writes:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def _cluster(self) -> AbstractContextManager[Cluster]:
        return connected(self._options.bootstrap, self._options.timeout_ms / 1000, self._options.client_id)

    def _write_all(
        self, cluster: Cluster, rows: Iterator[pa.RecordBatch], identity: Identity, transactional_id: str | None
    ) -> _Rows:
        """Write the rows of a task, all acknowledged."""

        counts: dict[str, int] = {}

        def partition_count(topic: str) -> int:
            if topic not in counts:
                sender.flush()  # the answers that are under way come first on a connection
                counts[topic] = len(cluster.persist(lambda: cluster.topics([topic]))[topic].leaders)
            return counts[topic]

        encoder = Encoder(self._options.topic, partition_count, self._options.batch_bytes)
        sender = Sender(cluster, identity, transactional_id=transactional_id, compression=self._options.compression)
        count = 0
        for batch in gathered(rows, GATHERED_BYTES):
            sender.send(encoder.encode(batch))
            count += batch.num_rows
        sender.flush()
        return _Rows(count, {topic for topic, _ in sender.partitions})

    def _write_plainly(self, rows: Iterator[pa.RecordBatch]) -> Written:
        with self._cluster() as cluster:
            self._write_all(cluster, rows, plain_identity(cluster), None)
        return Written(query="")

    def _or_give_up(self, cluster: Cluster, write: Callable[[], _Rows], give_up: Callable[[], None]) -> _Rows:
        try:
            return write()
        except BaseException:
            cluster.forget()  # answers to what was written may still be on their way
            try:
                give_up()
            except WireError as error:
                log.warning("the transaction of a failed task stays open until the task runs again: %s", error)
            raise


class StreamWriter(_Writes, DataSourceStreamArrowWriter):
    """Exactly once: atomic per batch (`two_phase`), or per task where the cluster has no such thing (`markers`).

    Or at least once. Each task finds out by itself what the cluster offers; a batch in which they differ is not
    committed.
    """

    _last_abort: Identity | None = None
    """When the batch was planned. None: not known."""

    def plan(self) -> Self:
        """In the driver, before tasks get their copies: so that they can tell that the batch was aborted since."""
        query = query_of(self._options.checkpoint)
        if query is not None and self._options.is_exactly_once:
            with self._cluster() as cluster:
                self._last_abort = TwoPhase(cluster, query, 0).last_abort()
        return self

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._options.is_exactly_once:
            return self._write_plainly(iterator)
        context = TaskContext.get()
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise RuntimeError("Spark does not say which query and batch this is")
        with self._cluster() as cluster:
            return self.write_task(cluster, iterator, query, int(batch), context.partitionId())

    def write_task(
        self, cluster: Cluster, rows: Iterator[pa.RecordBatch], query: str, batch: int, task: int
    ) -> Written:
        """Exactly once, for one task of a batch."""
        protocol = TwoPhase(cluster, query, batch, self._last_abort)
        try:
            begun = protocol.begin(task)
        except WireError as error:
            if error.code not in NO_TWO_PHASES:
                raise
            return Written(query=query, marked=self._mark(cluster, rows, self._markers(cluster, query, batch), task))
        return Written(query=query, prepared=self._prepare(cluster, rows, protocol, begun, task))

    def _markers(self, cluster: Cluster, query: str, batch: int) -> Markers:
        return Markers(cluster, query, batch, self._options.transaction_timeout_ms)

    def _prepare(
        self, cluster: Cluster, rows: Iterator[pa.RecordBatch], protocol: TwoPhase, begun: Begun, task: int
    ) -> Prepared:
        if begun.is_decided:
            return Prepared(task=task, decider=begun.decider, is_decided=True)
        written = self._or_give_up(
            cluster,
            lambda: self._write_all(cluster, rows, begun.writer, protocol.transactional_id(task)),
            lambda: protocol.give_up(task, begun.writer),
        )
        return Prepared(
            task=task,
            decider=begun.decider,
            is_decided=False,
            writer=begun.writer if written.topics else None,
            topic=written.topic,
        )

    def _mark(self, cluster: Cluster, rows: Iterator[pa.RecordBatch], protocol: Markers, task: int) -> Marked:
        begun = protocol.begin(task)
        if begun.rows is not None:
            protocol.check_rows(task, begun.rows, sum(batch.num_rows for batch in rows))
            return Marked(task=task, writer=None, topic=None)

        def write() -> _Rows:
            written = self._write_all(cluster, rows, begun.writer, protocol.transactional_id(task))
            if written.topic is not None:
                protocol.mark(task, begun.writer, written.topic, written.rows)
            return written

        written = self._or_give_up(cluster, write, lambda: protocol.give_up(task, begun.writer))
        return Marked(task=task, writer=begun.writer if written.topics else None, topic=written.topic)

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:
        prepared, marked = _parts(messages)
        if prepared and marked:
            self.abort(messages, batchId)
            raise BatchLostError(f"batch {batchId}: some nodes of the cluster allow commits in two phases, some don't")
        with self._cluster() as cluster:
            if prepared:
                TwoPhase(cluster, _query(messages), batchId).commit(prepared)
            if marked:
                self._markers(cluster, _query(messages), batchId).commit(marked)

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:
        prepared, marked = _parts(messages)
        with self._cluster() as cluster:
            if marked:
                self._markers(cluster, _query(messages), batchId).abort(marked)
            elif prepared:
                TwoPhase(cluster, _query(messages), batchId).abort(len(messages))
            elif self._options.is_exactly_once:
                self._abort_unheard(cluster, batchId, len(messages))

    def _abort_unheard(self, cluster: Cluster, batch: int, task_count: int) -> None:
        """No task got as far as to tell of itself, but Spark may have killed some in the middle of writing."""
        query = query_of(self._options.checkpoint)
        if query is None:
            log.warning("transactions of the tasks of batch %d may stay open until the query runs again", batch)
            return
        try:
            TwoPhase(cluster, query, batch).abort(task_count)
        except WireError as error:
            if error.code not in NO_TWO_PHASES:  # else they end by themselves, after transaction.timeout.ms
                raise


def query_of(checkpoint: str | None) -> str | None:
    """The id of the query whose state is kept there; None where that is not a directory of this machine."""
    if checkpoint is None:
        return None
    try:
        written: dict[str, str] = json.loads(Path(urlsplit(checkpoint).path, "metadata").read_text())
    except (OSError, ValueError):
        return None
    return written.get("id")


def _parts(messages: Sequence[Written | None]) -> tuple[list[Prepared], list[Marked]]:
    there = [message for message in messages if message is not None]
    prepared = [message.prepared for message in there if message.prepared is not None]
    return prepared, [message.marked for message in there if message.marked is not None]


class BatchWriter(_Writes, DataSourceArrowWriter):
    """One job: all its rows become visible when all are written, or none.

    There is no batch that Spark would run again, hence no decision to find: these transactions end by themselves after
    transaction.timeout.ms if the driver dies. If it dies in the very moment of committing, some are visible.
    """

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options)
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._options.is_exactly_once:
            return self._write_plainly(iterator)
        name = f"ottla-spark-{self._job}-{TaskContext.get().partitionId()}"
        with self._cluster() as cluster:
            writer = start(cluster, name, self._options.transaction_timeout_ms)
            topics = self._or_give_up(
                cluster,
                lambda: self._write_all(cluster, iterator, writer, name),
                lambda: _end(cluster, name, writer, commits=False),
            ).topics
        return Written(query=self._job, transactional_id=name if topics else None, writer=writer if topics else None)

    def commit(self, messages: Sequence[Written | None]) -> None:
        self._end_all(messages, commits=True)

    def abort(self, messages: Sequence[Written | None]) -> None:
        self._end_all(messages, commits=False)

    def _end_all(self, messages: Sequence[Written | None], *, commits: bool) -> None:
        with self._cluster() as cluster:
            for message in messages:
                if message is not None and message.transactional_id is not None and message.writer is not None:
                    _end(cluster, message.transactional_id, message.writer, commits=commits)


def _end(cluster: Cluster, name: str, writer: Identity, *, commits: bool) -> None:
    """An abort of what another attempt has taken over, or of what is committed, is none of ours."""
    try:
        end(cluster, name, writer, commits=commits)
    except WireError as error:
        if commits or error.code not in NOT_OURS:
            raise


def _query(messages: Sequence[Written | None]) -> str:
    return next((message.query for message in messages if message is not None), "")

"""The sink: `df.write` and `df.writeStream` with format("ottla").

Spark makes a writer in a process beside the driver, sends copies to the tasks, and asks yet another process to commit:
only the messages of the tasks carry anything from one to the other.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, NullType, ShortType, StringType, StructType

from ottla.errors import ErrorCode
from ottla.protocol.compression import Compression
from pyspark_ottla.encoding import Encoder
from pyspark_ottla.options import Options, OptionsError
from pyspark_ottla.producing import Identity, Sender, plain_identity
from pyspark_ottla.transactions import FENCED, end, start
from pyspark_ottla.two_phase import Prepared, TwoPhase
from pyspark_ottla.wire import Cluster, WireError

__all__ = ["BatchWriter", "SinkOptions", "StreamWriter"]

DEFAULT_BATCH_BYTES: Final = 512 * 1024
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
    transactional_id: str | None = None
    writer: Identity | None = None
    """A batch job's, exactly once."""


class _Writes:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def _cluster(self) -> Cluster:
        return Cluster(self._options.bootstrap, timeout_s=self._options.timeout_ms / 1000)

    def _write_all(
        self, cluster: Cluster, rows: Iterator[pa.RecordBatch], identity: Identity, transactional_id: str | None
    ) -> set[str]:
        """Write the rows of a task, all acknowledged; the topics that they went to."""

        def partition_count(topic: str) -> int:
            return len(cluster.persist(lambda: cluster.topics([topic]))[topic].leaders)

        encoder = Encoder(self._options.topic, partition_count, self._options.batch_bytes)
        sender = Sender(cluster, identity, transactional_id=transactional_id, compression=self._options.compression)
        for batch in rows:
            sender.send(encoder.encode(batch))
        sender.flush()
        return {topic for topic, _ in sender.partitions}

    def _write_plainly(self, rows: Iterator[pa.RecordBatch]) -> Written:
        with self._cluster() as cluster:
            self._write_all(cluster, rows, plain_identity(cluster), None)
        return Written(query="")

    def _or_give_up(self, cluster: Cluster, write: Callable[[], set[str]], give_up: Callable[[], None]) -> set[str]:
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
    """Exactly once and atomic per batch (`two_phase`), or at least once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._options.is_exactly_once:
            return self._write_plainly(iterator)
        context = TaskContext.get()
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise RuntimeError("Spark does not say which query and batch this is")
        with self._cluster() as cluster:
            prepared = self._prepare(cluster, iterator, TwoPhase(cluster, query, int(batch)), context.partitionId())
        return Written(query=query, prepared=prepared)

    def _prepare(self, cluster: Cluster, rows: Iterator[pa.RecordBatch], protocol: TwoPhase, task: int) -> Prepared:
        try:
            begun = protocol.begin(task)
        except WireError as error:
            raise _explained(error) from error
        if begun.is_decided:
            return Prepared(task=task, decider=begun.decider, is_decided=True)
        topics = self._or_give_up(
            cluster,
            lambda: self._write_all(cluster, rows, begun.writer, protocol.transactional_id(task)),
            lambda: protocol.give_up(task, begun.writer),
        )
        return Prepared(
            task=task,
            decider=begun.decider,
            is_decided=False,
            writer=begun.writer if topics else None,
            topic=min(topics, default=None),
        )

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:
        prepared = [message.prepared for message in messages if message is not None and message.prepared is not None]
        if prepared:
            with self._cluster() as cluster:
                TwoPhase(cluster, _query(messages), batchId).commit(prepared)

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:
        if self._options.is_exactly_once and _query(messages):
            with self._cluster() as cluster:
                TwoPhase(cluster, _query(messages), batchId).abort()


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
            )
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
    """An abort of what another attempt has taken over is none of ours."""
    try:
        end(cluster, name, writer, commits=commits)
    except WireError as error:
        if commits or error.code not in FENCED:
            raise


def _query(messages: Sequence[Written | None]) -> str:
    return next((message.query for message in messages if message is not None), "")


def _explained(error: WireError) -> Exception:
    if error.code in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
        return OptionsError(
            f"{error}. A stream that writes exactly once needs commits in two phases: set"
            " transaction_two_phase_commit_enable on the nodes, or delivery=at-least-once on the query."
        )
    return error

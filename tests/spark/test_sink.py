"""The writers on a real node, as Spark calls them but without Spark."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_ottla.encoding import RowsError
from pyspark_ottla.options import OptionsError
from pyspark_ottla.sink import SinkOptions, StreamWriter
from pyspark_ottla.wire import Cluster, WireError
from tests.spark.reading import Topics

WITH_TOPICS = StructType([StructField("value", StringType()), StructField("topic", StringType())])
VALUES = StructType([StructField("value", StringType())])


def at_least_once(topics: Topics, topic: str, **given: str) -> StreamWriter:
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "at-least-once", **given}
    return StreamWriter(SinkOptions.parse(options, VALUES))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_at_least_once_is_visible_when_the_task_has_written(topics: Topics, compression: str) -> None:
    topic = topics.create(partitions=3)
    writer = at_least_once(topics, topic, **{"kafka.compression.type": compression})
    values = [f"{number}" for number in range(5_000)]

    message = writer.write(iter([pa.RecordBatch.from_pydict({"value": values})]))
    writer.commit([message], 0)

    assert topics.committed(topic) == sorted(value.encode() for value in values)


def test_a_record_that_is_too_large_is_an_error_that_says_where(topics: Topics) -> None:
    topic = topics.create()
    large = pa.RecordBatch.from_pydict({"value": ["x" * 2_000_000]})

    with pytest.raises(WireError, match=f"{topic}-0: MESSAGE_TOO_LARGE"):
        at_least_once(topics, topic).write(iter([large]))


def test_a_topic_that_is_not_there_is_an_error_that_names_it(topics: Topics) -> None:
    with pytest.raises(WireError, match="no-such-topic"):
        at_least_once(topics, "no-such-topic").write(iter([pa.RecordBatch.from_pydict({"value": ["x"]})]))


@pytest.mark.parametrize("two_phases", [True, False], ids=["two-phases", "marks"])
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ({"value": ["small", "x" * 2_000_000], "topic": ["TOPIC", "TOPIC"]}, "MESSAGE_TOO_LARGE"),
        ({"value": ["a", "b"], "topic": ["TOPIC", "no-such-topic"]}, "no-such-topic"),
        ({"value": ["a", "b"], "topic": ["TOPIC", None]}, "the column topic holds null"),
        ({"value": ["a", "b"], "topic": ["TOPIC", "TOPIC"], "partition": [0, 7]}, "partition 7 where"),
    ],
)
def test_rows_that_can_not_be_written_leave_no_open_transaction_and_nothing_behind(
    request: pytest.FixtureRequest, rows: dict[str, list[Any]], named: str, two_phases: bool
) -> None:
    """The first row is good, and may be written before the other is found."""
    topics = Topics(request.getfixturevalue("spark_node" if two_phases else "plain_node"), request.node.name)
    topic, query = topics.create(), uuid.uuid4().hex
    rows = {**rows, "topic": [topic if name == "TOPIC" else name for name in rows["topic"]]}
    columns = {"value": pa.string(), "topic": pa.string(), "partition": pa.int32()}
    schema = pa.schema([(name, columns[name]) for name in rows])
    whole = pa.RecordBatch.from_pydict(rows, schema)
    writer = StreamWriter(SinkOptions.parse({"kafka.bootstrap.servers": topics.bootstrap}, WITH_TOPICS))

    with Cluster(topics.bootstrap, timeout_s=20) as cluster, pytest.raises((WireError, RowsError), match=named):
        writer.write_task(cluster, iter([whole[:1], whole[1:]]), query, 0, 0)

    assert [name for name in topics.open_transactions() if query in name] == []
    assert topics.committed(topic) == []


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_an_abort_that_has_heard_of_no_task_ends_what_killed_tasks_left_open(
    topics: Topics, tmp_path: Path, prefix: str
) -> None:
    topic, query = topics.create(), uuid.uuid4().hex
    (tmp_path / "metadata").write_text(json.dumps({"id": query}))
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "checkpointLocation": f"{prefix}{tmp_path}"}
    writer = StreamWriter(SinkOptions.parse(given, VALUES))
    with Cluster(topics.bootstrap, timeout_s=20) as cluster:
        for task in (0, 1):
            writer.write_task(cluster, iter([pa.RecordBatch.from_pydict({"value": ["x"]})]), query, 0, task)
        assert len([name for name in topics.open_transactions() if query in name]) == 2

        writer.abort([None, None], 0)

    assert [name for name in topics.open_transactions() if query in name] == []
    assert topics.committed(topic) == []


@pytest.mark.parametrize("checkpoint", [None, "/no/such/place", "hdfs://cluster/query"])
def test_an_abort_that_can_not_know_the_query_says_that_transactions_may_stay_open(
    topics: Topics, checkpoint: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": "t"}
    if checkpoint is not None:
        given["checkpointLocation"] = checkpoint
    StreamWriter(SinkOptions.parse(given, VALUES)).abort([None], 3)
    assert "batch 3 may stay open" in caplog.text


def test_rows_without_a_key_go_around_and_those_with_one_stay_together(topics: Topics) -> None:
    topic = topics.create(partitions=4)
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "delivery": "at-least-once"}
    fields = StructType([StructField("key", StringType()), StructField("value", StringType())])
    rows = pa.RecordBatch.from_pydict({"key": [None] * 8_000 + ["k"] * 100, "value": ["v"] * 8_100})

    StreamWriter(SinkOptions.parse(options, fields)).write(iter([rows]))

    ends = topics.node.admin().topic_offsets(topic)
    assert all(found.offset >= 1_000 for found in ends.values())
    assert sum(found.offset for found in ends.values()) == 8_100


@pytest.mark.parametrize(
    ("fields", "given", "named"),
    [
        ({"key": StringType()}, {"topic": "t"}, "value"),
        ({"value": StringType()}, {}, "topic"),
        ({"value": IntegerType()}, {"topic": "t"}, "value can't be of type int"),
        ({"value": StringType(), "colour": StringType()}, {"topic": "t"}, "colour"),
        ({"value": StringType()}, {"topic": "t", "delivery": "twice"}, "delivery"),
        ({"value": StringType()}, {"topic": "t", "kafka.compression.type": "rar"}, "compression.type"),
    ],
)
def test_rows_or_options_that_can_not_be_used_are_named(
    fields: dict[str, StringType], given: dict[str, str], named: str
) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    with pytest.raises(OptionsError, match=named):
        SinkOptions.parse({"kafka.bootstrap.servers": "localhost:1", **given}, schema)

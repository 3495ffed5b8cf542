"""The writers on a real node, as Spark calls them but without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyspark_ottla.options import OptionsError
from pyspark_ottla.sink import SinkOptions, StreamWriter
from pyspark_ottla.wire import WireError
from tests.spark.reading import Topics

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

"""`value.format` through the reader on a real node: which columns there are, and what becomes of malformed values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_ottla import DefaultSource
from pyspark_ottla.options import OptionsError
from pyspark_ottla.values import MalformedValueError, ValueOptions, columns
from tests.spark.reading import Topics

AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "my id", "type": ["null", "long"]}]})


def as_sql(**given: str) -> str:
    return columns(ValueOptions.parse({name.replace("_", "."): text for name, text in given.items()}), False)


def table(topics: Topics, topic: str, kind: Any, **given: str) -> pa.Table:
    """As Spark does it, which parses the schema in SQL meanwhile."""
    named = {name.replace("_", "."): text for name, text in given.items()}
    source = DefaultSource({"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, **named})
    reader = source.reader(StructType([StructField("value", kind)]))
    return pa.Table.from_batches([batch for task in reader.partitions() for batch in reader.read(task)])


def test_the_type_of_the_value_comes_from_the_schema_in_any_notation() -> None:
    spark_json = StructType([StructField("id", LongType(), nullable=False)]).json()

    assert "value binary" in as_sql()
    assert "value string" in as_sql(value_format="string")
    assert "value struct<id bigint>" in as_sql(value_format="json", value_schema="id bigint")
    assert "value STRUCT<id: bigint>" in as_sql(value_format="json", value_schema="STRUCT<id: bigint>")
    assert "value struct<`id`: bigint>" in as_sql(value_format="json", value_schema=spark_json)
    assert "value struct<`my id`: bigint>" in as_sql(value_format="avro", value_schema=AVRO)
    assert as_sql(value_format="json", value_schema="id bigint").endswith("_corrupt_record binary")
    assert "_corrupt_record" not in as_sql(value_format="json", value_schema="id bigint", mode="FAILFAST")


def test_malformed_values_are_null_and_kept_in_a_column(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b'{"id":1}', b"\xff", b'{"id":"x"}', b'{"id":2}'])
    kind = StructType([StructField("id", LongType())])

    found = table(topics, topic, kind, value_format="json", value_schema="id bigint")

    assert found["value"].to_pylist() == [{"id": 1}, None, None, {"id": 2}]
    assert found["_corrupt_record"].to_pylist() == [None, b"\xff", b'{"id":"x"}', None]
    assert found["offset"].to_pylist() == [0, 1, 2, 3]


def test_malformed_values_fail_the_query_if_it_wants_that(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b'{"id":1}', b"oops"])
    kind = StructType([StructField("id", LongType())])

    with pytest.raises(MalformedValueError, match=f"offset 1 of {topic}-0"):
        table(topics, topic, kind, value_format="json", value_schema="id bigint", mode="FAILFAST")


def test_texts_are_utf_8(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, ["žluťoučký".encode(), b"\xed\xa0\x80", b""])

    found = table(topics, topic, StringType(), value_format="string")

    assert found["value"].to_pylist() == ["žluťoučký", None, ""]
    assert found["_corrupt_record"].to_pylist() == [None, b"\xed\xa0\x80", None]


def test_avro_in_frames(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b"\x00\x00\x00\x00\x09\x02\x0e", b"\x00\x00\x00\x00\x09\x00", b"\x02\x0e"])
    kind = StructType([StructField("my id", LongType())])

    found = table(topics, topic, kind, value_format="avro", value_schema=AVRO, value_framing="confluent")

    assert found["value"].to_pylist() == [{"my id": 7}, {"my id": None}, None]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"value_format": "xml"}, "value.format: 'xml'"),
        ({"value_format": "json"}, "value.schema"),
        ({"value_schema": "id int"}, "value.schema goes with value.format"),
        ({"value_format": "avro", "value_schema": "id int"}, "Avro values need an Avro schema"),
        ({"value_format": "avro", "value_schema": "{"}, "value.schema"),
        ({"value_format": "json", "value_schema": '{"type": "struct"}'}, "value.schema"),
        ({"value_format": "string", "mode": "DROPMALFORMED"}, "mode"),
        ({"value_format": "string", "value_framing": "glue"}, "value.framing"),
    ],
)
def test_an_option_that_can_not_be_used_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(OptionsError, match=named):
        as_sql(**given)


def test_a_field_that_must_not_be_null_is_refused(topics: Topics) -> None:
    topic = topics.create()
    kind = StructType([StructField("id", LongType(), nullable=False)])

    with pytest.raises(OptionsError, match=r"value\.id can't be NOT NULL"):
        table(topics, topic, kind, value_format="json", value_schema="id bigint NOT NULL")

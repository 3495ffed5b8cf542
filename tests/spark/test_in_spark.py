"""Source and sink inside a real, small Spark. Needs Java."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.spark import LOCAL_IP, LOOPBACK, with_schema_from
from tests.spark.listening import addresses
from tests.spark.reading import Topics
from tests.spark.small import needs_java, small_session

pytestmark = [needs_java, pytest.mark.filterwarnings("ignore")]  # pyspark's own


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    spark = small_session(tmp_path_factory.mktemp("warehouse"), spark__ui__enabled="true", spark__ui__port="0")
    yield spark
    spark.stop()


def values(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


class Copy:
    """A query that copies one topic to another, all that is there."""

    def __init__(self, spark: Any, topics: Topics, checkpoint: Path) -> None:
        self._spark, self._topics, self._checkpoint = spark, topics, checkpoint
        self.source, self.target = topics.create(partitions=2), topics.create(partitions=2)

    def run(self, expression: str = "value", **given: str) -> Any:
        rows = (
            self._spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", self._topics.bootstrap)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("minPartitions", 2)
            .load()
        )
        query = (
            rows.selectExpr("key", f"{expression} AS value")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", self._topics.bootstrap)
            .option("topic", self.target)
            .option("checkpointLocation", str(self._checkpoint))
            .options(**given)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def forget_commit(self, batch: int) -> None:
        """As if the driver had died between our commit and Spark's own."""
        for name in (str(batch), f".{batch}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)


def test_nobody_else_can_reach_it(spark: Any) -> None:
    assert spark.sparkContext.uiWebUrl is not None  # its page is among them
    assert addresses(spark._jvm.java.lang.ProcessHandle.current().pid()) == {LOOPBACK}
    assert LOCAL_IP not in os.environ


def test_a_topic_is_read_and_written_by_jobs(spark: Any, topics: Topics) -> None:
    source, target = topics.create(partitions=3), topics.create(partitions=3)
    topics.fill(source, values(300))
    rows = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", source)
        .option("includeHeaders", "true")
        .load()
    )

    assert rows.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    rows.selectExpr("key", "value", f"'{target}' AS topic").write.format("ottla").option(
        "kafka.bootstrap.servers", topics.bootstrap
    ).mode("append").save()

    assert topics.committed(target) == values(300)
    assert topics.open_transactions() == []


def test_values_have_the_types_that_a_sample_has(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b'{"amount": 7}', b'{"amount": 8, "client": "alice"}', b"not JSON"])
    rows = (
        spark.read.format("ottla").option("kafka.bootstrap.servers", topics.bootstrap).option("subscribe", topic).load()
    )

    typed = with_schema_from(rows, topic, bootstrap_servers=topics.bootstrap, sample=2)

    assert [tuple(row) for row in typed.select("value.amount", "value.client").collect()] == [
        (7, None),
        (8, "alice"),
        (None, None),
    ]


def test_values_have_the_types_of_the_schema_that_is_given(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b'{"id": 7, "at": {"day": "2026-01-02", "tags": ["a", null]}}', b"oops", b'{"id": 8}'])
    rows = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", topic)
        .option("value.format", "json")
        .option("value.schema", "id BIGINT, at STRUCT<day: DATE, tags: ARRAY<STRING>>")
        .load()
    )

    found = rows.selectExpr("value.id", "CAST(value.at.day AS STRING)", "value.at.tags", "_corrupt_record").collect()

    assert [tuple(row) for row in found] == [
        (7, "2026-01-02", ["a", None], None),
        (None, None, None, b"oops"),
        (8, None, None, None),
    ]


def test_avro_values_have_the_types_of_their_schema(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, [b"\x0e\x02\x06abc\x04\x02\x04\x00", b"\x10\x00\x00"])
    fields = [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "sizes", "type": {"type": "array", "items": "int"}},
    ]
    rows = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", topic)
        .option("value.format", "avro")
        .option("value.schema", json.dumps({"type": "record", "name": "R", "fields": fields}))
        .option("mode", "FAILFAST")
        .load()
    )

    assert [tuple(row) for row in rows.select("value.*").collect()] == [(7, "abc", [1, 2]), (8, None, [])]


def test_a_batch_that_spark_runs_again_adds_nothing(spark: Any, topics: Topics, tmp_path: Path) -> None:
    copy = Copy(spark, topics, tmp_path / "checkpoint")
    topics.fill(copy.source, values(200))
    progress = copy.run().lastProgress
    assert topics.committed(copy.target) == values(200)
    assert copy.source in json.dumps(progress["sources"][0]["latestOffset"])

    copy.forget_commit(0)
    copy.run()

    assert topics.committed(copy.target) == values(200)
    assert topics.open_transactions() == []


def test_a_task_that_fails_leaves_nothing_behind(spark: Any, topics: Topics, tmp_path: Path) -> None:
    copy = Copy(spark, topics, tmp_path / "checkpoint")
    topics.fill(copy.source, values(100))

    with pytest.raises(Exception, match="on purpose"):
        copy.run("IF(value = CAST('77' AS BINARY), CAST(raise_error('on purpose') AS BINARY), value)")
    assert topics.committed(copy.target) == []
    assert topics.open_transactions() == []  # not even of the task that Spark killed, or began, after the other failed

    copy.run()
    assert topics.committed(copy.target) == values(100)
    assert topics.open_transactions() == []

"""Spark's own Kafka connector, from Maven Central, reads from and writes to Ottla; our source reads what it reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.testing.pytest_plugin import Clients
from tests.spark.reading import Topics

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # pyspark's own


@pytest.fixture
def topics(bootstrap: str, request: pytest.FixtureRequest) -> Iterator[Topics]:
    clients = Clients(bootstrap)
    topics = Topics(clients, request.node.name)
    with topics.opened:
        yield topics
    clients.close()


def read(spark: Any, kind: str, topics: Topics, topic: str, **given: object) -> Any:
    return (
        spark.read.format(kind)
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .options(**given)
        .load()
    )


def fill_with_everything(topics: Topics, topic: str) -> None:
    """Keys and values that are null, headers, times, an aborted transaction and a committed one."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic, "compression.type": "lz4"})
    producer.init_transactions(10)
    for end, name in ((producer.abort_transaction, b"aborted"), (producer.commit_transaction, b"committed")):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(
                topic,
                value=None if number == 3 else b"%s %d" % (name, number),
                key=None if number % 5 == 0 else b"%d" % number,
                timestamp=1_700_000_000_000 + number * 1_000,
                headers=[("a", b"%d" % number), ("b", None)] if number % 2 else None,
            )
        end(10)


def test_both_sources_read_the_same(spark: Any, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    fill_with_everything(topics, topic)
    ours = read(spark, "ottla", topics, topic, includeHeaders="true")
    theirs = read(spark, "kafka", topics, topic, includeHeaders="true")

    assert ours.columns == theirs.columns
    assert [field.dataType for field in ours.schema] == [field.dataType for field in theirs.schema]
    in_order = ("partition", "offset")
    assert ours.orderBy(*in_order).collect() == theirs.orderBy(*in_order).collect()
    assert ours.count() == 20


@pytest.mark.parametrize(
    "given",
    [
        {"startingTimestamp": "1700000005000", "endingTimestamp": "1700000012000"},
        {"startingOffsets": '{"TOPIC": {"0": 8}}', "endingOffsets": '{"TOPIC": {"0": 15}}'},
        {"startingOffsetsByTimestamp": '{"TOPIC": {"0": 1700000007000}}', "endingOffsets": "latest"},
        {"minPartitions": "7"},
    ],
)
def test_both_sources_understand_the_same_options(spark: Any, topics: Topics, given: dict[str, str]) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number in range(20):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1_000)
    producer.flush()
    named = {name: text.replace("TOPIC", topic) for name, text in given.items()}

    ours, theirs = (read(spark, kind, topics, topic, **named).orderBy("offset") for kind in ("ottla", "kafka"))

    assert ours.collect() == theirs.collect()
    assert ours.count() > 0


def test_a_job_of_the_connector_writes_keys_headers_and_partitions(spark: Any, topics: Topics) -> None:
    topic, ours = topics.create(partitions=3), topics.create(partitions=3)
    rows = [(b"k%d" % number, b"v%d" % number, [("h", b"%d" % number)]) for number in range(200)]
    frame = spark.createDataFrame(rows, "key binary, value binary, headers array<struct<key: string, value: binary>>")
    for kind, target in (("kafka", topic), ("ottla", ours)):
        frame.write.format(kind).mode("append").option("kafka.bootstrap.servers", topics.bootstrap).option(
            "topic", target
        ).option("includeHeaders", "true").save()

    columns = ("key", "value", "partition", "headers")
    found, expected = (
        read(spark, "kafka", topics, target, includeHeaders="true").select(*columns).orderBy("key").collect()
        for target in (topic, ours)
    )
    assert found == expected  # the same keys in the same partitions
    assert len(found) == 200


def test_streams_of_the_connector_read_and_write(spark: Any, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    values = sorted(b"%d" % number for number in range(400))
    topics.fill(source, values[:200])

    def run() -> None:
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", topics.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 90)
            .load()
        )
        query = (
            rows.select("key", "value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", topics.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert topics.committed(target) == sorted(values[:200])
    topics.fill(source, values[200:])
    run()

    assert topics.committed(target) == values


def test_times_of_the_connector_are_those_of_the_records(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    before_ms = time.time_ns() // 1_000_000
    frame = spark.createDataFrame([(b"v",)], "value binary")
    frame.write.format("kafka").mode("append").option("kafka.bootstrap.servers", topics.bootstrap).option(
        "topic", topic
    ).save()

    (row,) = read(spark, "kafka", topics, topic).selectExpr("unix_millis(timestamp) AS time", "timestampType").collect()

    assert before_ms <= row.time <= time.time_ns() // 1_000_000
    assert row.timestampType == 0

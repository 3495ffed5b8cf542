"""What each option of the source does, on a real node and without Spark."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.cli.main import main
from pyspark_ottla.fetching import DataLossError
from pyspark_ottla.options import OptionsError
from pyspark_ottla.wire import Broker
from tests.spark.reading import Topics
from tests.spark.test_source import batch, numbers, options, stream, values

FIRST_MS = 1_700_000_000_000


def fill_with_times(topics: Topics, topic: str, partitions: int = 1) -> None:
    """Ten records per partition, a second apart."""
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for partition in range(partitions):
        for number in range(10):
            value = b"%d" % (partition * 10 + number)
            producer.produce(topic, value, partition=partition, timestamp=FIRST_MS + number * 1000)
    producer.flush()


def test_starting_offsets_by_timestamp_are_per_partition(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    fill_with_times(topics, topic, partitions=2)
    times = {topic: {"0": FIRST_MS + 7_000, "1": FIRST_MS + 4_500}}
    reader = batch(topics, subscribe=topic, startingOffsetsByTimestamp=json.dumps(times))

    assert values(reader, reader.partitions()) == sorted([*numbers(7, 10), *numbers(15, 20)])


def test_ending_offsets_by_timestamp_are_per_partition(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    fill_with_times(topics, topic, partitions=2)
    times = {topic: {"0": FIRST_MS + 2_000, "1": FIRST_MS + 99_000}}
    reader = batch(topics, subscribe=topic, endingOffsetsByTimestamp=json.dumps(times))

    assert values(reader, reader.partitions()) == sorted([*numbers(0, 2), *numbers(10, 20)])


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_time_after_the_last_record_is_an_error_unless_the_strategy_says_otherwise(
    topics: Topics, option: str
) -> None:
    topic = topics.create()
    fill_with_times(topics, topic)
    late = FIRST_MS + 99_000
    given = {option: late if option == "startingTimestamp" else json.dumps({topic: {"0": late}})}
    strict = stream(topics, topic, **given)
    lenient = stream(topics, topic, startingOffsetsByTimestampStrategy="latest", **given)

    with pytest.raises(OptionsError, match="no record at or after"):
        strict.initialOffset()
    assert lenient.initialOffset()["offsets"] == {topic: {"0": 10}}


def test_a_time_goes_before_an_offset_as_in_sparks_kafka_source(topics: Topics) -> None:
    topic = topics.create()
    fill_with_times(topics, topic)
    times = json.dumps({topic: {"0": FIRST_MS + 8_000}})
    reader = batch(topics, subscribe=topic, startingOffsetsByTimestamp=times, startingOffsets="earliest")

    assert values(reader, reader.partitions()) == numbers(8, 10)


def test_words_in_offsets_are_numbers(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    fill_with_times(topics, topic, partitions=2)
    reader = stream(topics, topic, startingOffsets=json.dumps({topic: {"0": -1, "1": -2}}))

    assert reader.initialOffset()["offsets"] == {topic: {"0": 10, "1": 0}}


def test_a_stream_waits_for_enough_records_but_no_longer_than_it_may(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 20))
    reader = stream(topics, topic, minOffsetsPerTrigger=100, maxTriggerDelay="10m")
    start = reader.initialOffset()

    assert reader.latestOffset(start, ReadMinRows(100)) == start
    reader._last_batch_s -= 599
    assert reader.latestOffset(start, ReadMinRows(100)) == start
    reader._last_batch_s -= 2
    end = reader.latestOffset(start, ReadMinRows(100))
    assert end["offsets"] == {topic: {"0": 20}}
    assert reader.latestOffset(end, ReadMinRows(100)) == end  # and the time runs anew


def test_a_stream_with_both_limits_takes_no_more_than_the_upper_one(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic, minOffsetsPerTrigger=50, maxOffsetsPerTrigger=70)
    start = reader.initialOffset()

    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    assert end["offsets"] == {topic: {"0": 70}}
    assert reader.latestOffset(end, ReadMaxRows(70)) == end  # 30 are not enough


@pytest.mark.parametrize(
    ("given", "tasks"),
    [({"minPartitions": 8}, 8), ({"maxRecordsPerPartition": 30}, 8), ({"minPartitions": 1}, 2), ({}, 1)],
)
def test_ranges_are_cut_into_as_many_tasks_as_asked_for(topics: Topics, given: dict[str, int], tasks: int) -> None:
    topic = topics.create(partitions=2)
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number in range(200):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    reader = batch(topics, subscribe=topic, **given)

    planned = reader.partitions()

    assert len(planned) == tasks
    assert values(reader, planned) == numbers(0, 200)


def test_a_topic_that_is_deleted_under_the_query_is_data_loss(topics: Topics) -> None:
    topic, other = topics.create(), topics.create()
    topics.fill(topic, numbers(0, 10))
    pattern = {"subscribePattern": f"({topic}|{other})"}
    strict, lenient = (stream(topics, topic, failOnDataLoss=flag, subscribe=None, **pattern) for flag in (True, False))
    middle = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    topics.node.admin().delete_topic(topic)
    topics.fill(other, numbers(50, 55))
    end = strict.latestOffset(middle, ReadAllAvailable())

    with pytest.raises(DataLossError, match=f"topic {topic} was deleted"):
        strict.partitions(middle, end)
    assert values(lenient, lenient.partitions(middle, end)) == numbers(50, 55)


def test_a_partition_that_ends_before_what_was_read_is_data_loss(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    strict, lenient = (stream(topics, topic, failOnDataLoss=flag) for flag in (True, False))
    end = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    beyond = {**end, "offsets": {topic: {"0": 15}}}

    with pytest.raises(DataLossError, match="ends at 10, where 15 had been read"):
        strict.partitions(beyond, end)
    assert lenient.partitions(beyond, end) == []


def test_options_of_the_client_are_passed_on(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create()
    topics.fill(topic, [b"x" * 900 for _ in range(50)], **{"batch.size": 2_000})
    sent = []
    send = Broker.send

    def seen(broker: Broker, request: object, version: int | None = None) -> None:
        sent.append((type(request).__name__, broker._client_id))
        send(broker, request, version)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(Broker, "send", seen)
    given = {"kafka.max.partition.fetch.bytes": 5_000, "kafka.client.id": "my-query", "kafka.linger.ms": 5}
    reader = batch(topics, subscribe=topic, **given)

    assert len(values(reader, reader.partitions())) == 50
    assert sum(name == "FetchRequest" for name, _ in sent) >= 9
    assert {client for _, client in sent} == {"my-query"}
    assert "option kafka.linger.ms has no effect here" in caplog.text


def test_the_group_is_named_after_the_topics_or_as_told(topics: Topics) -> None:
    named = {"subscribe": "a,b"}

    assert options(topics, streaming=True, **named).group == "spark-ottla-a,b"
    assert options(topics, streaming=True, groupIdPrefix="shop", **named).group == "shop-a,b"
    assert options(topics, streaming=True, **{"group.id": "mine"}, **named).group == "mine"
    assert options(topics, streaming=True, **{"kafka.group.id": "mine"}, **named).group == "mine"


def test_the_lag_of_a_query_is_told_in_records_and_seconds(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic, groupIdPrefix="shop")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    topics.fill(topic, numbers(100, 130))

    reader.latestOffset(end, ReadAllAvailable())  # Spark asks for the next batch when the last is done

    (found,) = topics.node.admin().group_lag(f"shop-{topic}")
    assert found.lag.records == 30
    assert found.lag.seconds is not None
    assert main(["group", "describe", f"shop-{topic}", "--bootstrap", topics.bootstrap]) == 0
    assert " 30 " in capsys.readouterr().out


def test_what_is_newest_is_reported_while_a_batch_is_behind_it(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic, maxOffsetsPerTrigger=10)
    start = reader.initialOffset()

    end = reader.latestOffset(start, ReadMaxRows(10))

    assert end["offsets"] == {topic: {"0": 10}}
    newest = reader.reportLatestOffset()
    assert newest is not None
    assert newest["offsets"] == {topic: {"0": 100}}


def test_headers_are_there_if_asked_for(topics: Topics) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    producer.produce(topic, b"v", headers=[("a", b"1"), ("a", None)])
    producer.flush()
    reader, plain = batch(topics, subscribe=topic, includeHeaders="true"), batch(topics, subscribe=topic)

    (found,) = (table for task in reader.partitions() for table in reader.read(task))
    assert found.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]]
    (found,) = (table for task in plain.partitions() for table in plain.read(task))
    assert "headers" not in found.schema.names

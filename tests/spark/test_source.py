"""The readers on a real node, as Spark calls them but without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pyspark_ottla.fetching import DataLossError
from pyspark_ottla.options import OptionsError, SourceOptions
from pyspark_ottla.source import BatchReader, StreamReader
from tests.spark.reading import Topics


def options(topics: Topics, *, streaming: bool, **given: object) -> SourceOptions:
    named = {name: str(value) for name, value in given.items()}
    return SourceOptions.parse({"kafka.bootstrap.servers": topics.bootstrap, **named}, streaming=streaming)


def stream(topics: Topics, topic: str, **given: object) -> StreamReader:
    settings = {"subscribe": topic, "startingOffsets": "earliest", **given}
    settings = {name: value for name, value in settings.items() if value is not None}
    reader = StreamReader(options(topics, streaming=True, **settings))
    topics.opened.callback(reader.stop)
    return reader


def batch(topics: Topics, **given: object) -> BatchReader:
    return BatchReader(options(topics, streaming=False, **given))


def values(reader: BatchReader | StreamReader, tasks: Sequence[Any]) -> list[bytes]:
    """What the tasks of a batch read, with a reader that has travelled to them."""
    reader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - as Spark does
    return sorted(value for task in tasks for found in reader.read(task) for value in found.column("value").to_pylist())


def lag_of(topics: Topics, group: str) -> int:
    return sum(found.lag.records or 0 for found in topics.node.admin().group_lag(group))


def numbers(start: int, end: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(start, end))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_reads_everything_whatever_the_compression(topics: Topics, compression: str) -> None:
    topic = topics.create(partitions=3)
    topics.fill(topic, numbers(0, 500), **{"compression.type": compression})
    reader = batch(topics, subscribe=topic, maxRecordsPerPartition=50)

    tasks = reader.partitions()

    assert len(tasks) > 3
    assert values(reader, tasks) == numbers(0, 500)


def test_aborted_records_are_left_out_unless_asked_for(topics: Topics) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(10)
    for end, content in ((producer.abort_transaction, b"aborted"), (producer.commit_transaction, b"committed")):
        producer.begin_transaction()
        producer.produce(topic, content)
        producer.flush()
        end(10)
    committed = batch(topics, subscribe=topic)
    everything = batch(topics, subscribe=topic, **{"isolation.level": "read_uncommitted"})

    assert values(committed, committed.partitions()) == [b"committed"]
    assert values(everything, everything.partitions()) == [b"aborted", b"committed"]


def test_offsets_and_times_say_where_to_begin_and_end(topics: Topics) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number in range(10):
        producer.produce(topic, b"%d" % number, timestamp=1_000 + number)
    producer.flush()
    by_offset = batch(
        topics,
        assign=json.dumps({topic: [0]}),
        startingOffsets=json.dumps({topic: {"0": 3}}),
        endingOffsets=json.dumps({topic: {"0": 6}}),
    )
    by_time = batch(topics, subscribePattern=f"{topic}.*", startingTimestamp=1_004, endingTimestamp=1_007)
    too_late = batch(topics, subscribe=topic, startingTimestamp=9_999)

    assert values(by_offset, by_offset.partitions()) == numbers(3, 6)
    assert values(by_time, by_time.partitions()) == numbers(4, 7)
    with pytest.raises(OptionsError, match="no record at or after"):
        too_late.partitions()


def test_a_stream_goes_on_where_it_was_and_commits_for_its_group(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic, **{"group.id": f"{topic}-group"})
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadAllAvailable())
    topics.fill(topic, numbers(100, 130))
    end = reader.latestOffset(middle, ReadAllAvailable())

    assert values(reader, reader.partitions(start, middle)) == numbers(0, 100)
    assert values(reader, reader.partitions(middle, end)) == numbers(100, 130)
    reader.commit(middle)
    assert lag_of(topics, f"{topic}-group") == 30
    reader.commit(end)
    assert lag_of(topics, f"{topic}-group") == 0


def test_a_stream_begins_once_however_often_spark_asks_and_whatever_comes_in_between(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    reader = stream(topics, topic, startingOffsets="latest")
    start = reader.initialOffset()
    topics.fill(topic, numbers(10, 20))
    end = reader.latestOffset(start, ReadAllAvailable())
    topics.fill(topic, numbers(20, 30))

    assert values(reader, reader.partitions(reader.initialOffset(), end)) == numbers(10, 20)


def test_a_first_batch_that_is_run_again_does_not_take_a_later_start_for_loss(topics: Topics) -> None:
    topic = topics.create()
    first_run = stream(topics, topic, startingOffsets="latest")
    end = first_run.latestOffset(first_run.initialOffset(), ReadAllAvailable())
    topics.fill(topic, numbers(0, 10))
    second_run = stream(topics, topic, startingOffsets="latest")

    assert second_run.partitions(second_run.initialOffset(), end) == []
    assert values(second_run, second_run.partitions(end, second_run.initialOffset())) == numbers(0, 10)


def test_small_ranges_share_a_task(topics: Topics) -> None:
    topic = topics.create(partitions=6)
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic)
    start = reader.initialOffset()

    assert len(reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))) == 1


def test_a_stream_takes_no_more_and_no_less_than_it_is_told_to(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.fill(topic, numbers(0, 100))
    reader = stream(topics, topic, maxOffsetsPerTrigger=10, minOffsetsPerTrigger=200)
    few = stream(topics, topic, minOffsetsPerTrigger=50)
    start = reader.initialOffset()

    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    assert reader.latestOffset(start, ReadMaxRows(10)) == start  # it waits for 200
    end = few.latestOffset(start, few.getDefaultReadLimit())
    assert isinstance(few.getDefaultReadLimit(), ReadMinRows)
    assert len(values(few, few.partitions(start, end))) == 100


def test_available_now_ends_where_the_topic_ended_when_it_began(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 25))
    reader = stream(topics, topic, maxOffsetsPerTrigger=10)
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    topics.fill(topic, numbers(25, 50))

    sizes = []
    while (after := reader.latestOffset(at, ReadMaxRows(10))) != at:
        sizes.append(len(values(reader, reader.partitions(at, after))))
        at = after

    assert sizes == [10, 10, 5]


def test_a_topic_that_was_made_again_is_noticed(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    strict, lenient = stream(topics, topic), stream(topics, topic, failOnDataLoss="false")
    start = strict.initialOffset()
    middle = strict.latestOffset(start, ReadAllAvailable())
    old_tasks = strict.partitions(start, middle)
    topics.node.admin().delete_topic(topic)
    topics.node.admin().create_topic(topic, partitions=1)
    topics.fill(topic, numbers(50, 70))
    end = strict.latestOffset(middle, ReadAllAvailable())

    with pytest.raises(DataLossError, match="made again"):
        strict.partitions(middle, end)
    with pytest.raises(DataLossError, match="made again"):
        values(strict, old_tasks)
    assert values(lenient, lenient.partitions(middle, end)) == numbers(50, 70)


def test_records_that_are_too_old_are_noticed(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    strict, lenient = stream(topics, topic), stream(topics, topic, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ReadAllAvailable())
    topics.node.admin().delete_records({(topic, 0): 4})

    with pytest.raises(DataLossError, match="offsets 0 to 3"):
        values(strict, strict.partitions(start, end))
    assert values(lenient, lenient.partitions(start, end)) == numbers(4, 10)


def test_new_partitions_are_read_from_their_beginning(topics: Topics) -> None:
    topic = topics.create()
    reader = stream(topics, topic, startingOffsets="latest")
    start = reader.initialOffset()
    topics.node.admin().create_partitions(topic, 4)
    topics.fill(topic, numbers(0, 40))
    end = reader.latestOffset(start, ReadAllAvailable())

    assert values(reader, reader.partitions(start, end)) == numbers(0, 40)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "assign": "{}"}, "exactly one"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "startingOffsets"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "-4"}, "maxOffsetsPerTrigger"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        ({"subscribe": "a", "isolation.level": "none"}, "isolation.level"),
        ({"subscribe": "a", "kafka.security.protocol": "SSL"}, "security.protocol"),
    ],
)
def test_an_option_that_can_not_be_used_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(OptionsError, match=named):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:1", **given}, streaming=True)


def test_a_topic_that_is_not_there_is_named(topics: Topics) -> None:
    with pytest.raises(OptionsError, match="no-such-topic does not exist"):
        batch(topics, subscribe="no-such-topic").partitions()

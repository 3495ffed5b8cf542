"""librdkafka (confluent-kafka): records go in and come out as they were sent."""

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from tests.interop.confluent import error_of, fill, new_consumer, new_producer, read, read_all, send
from tests.interop.conftest import MakeTopic


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_compression_come_back_in_order(bootstrap: str, topic: str, compression: str) -> None:
    values = [f"{number} {'x' * (number % 300)}".encode() for number in range(2000)]

    send(new_producer(bootstrap, compression_type=compression), topic, values)

    messages = read_all(bootstrap, topic, len(values), check_crcs=True)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(bootstrap: str, topic: str, acks: str) -> None:
    send(new_producer(bootstrap, acks=acks), topic, [b"a", b"b", b"c"])

    assert [message.value() for message in read_all(bootstrap, topic, 3)] == [b"a", b"b", b"c"]


def test_acknowledgements_carry_the_offset_at_which_a_record_is_read(bootstrap: str, topic: str) -> None:
    sent = send(new_producer(bootstrap), topic, [b"a", b"b", b"c"])

    assert [(message.offset(), message.value()) for message in sent] == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize("value", [None, b"", b"v"])
@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_null_and_empty_keys_and_values_are_told_apart(
    bootstrap: str, topic: str, key: bytes | None, value: bytes | None
) -> None:
    send(new_producer(bootstrap), topic, [value], key=key)

    (message,) = read_all(bootstrap, topic, 1)
    assert (message.key(), message.value()) == (key, value)


def test_headers_keep_order_duplicates_and_nulls(bootstrap: str, topic: str) -> None:
    headers = [("trace", b"1"), ("trace", b"2"), ("none", None), ("empty", b""), ("ünïcode", "ü".encode())]

    send(new_producer(bootstrap), topic, [b"v"], headers=headers)

    (message,) = read_all(bootstrap, topic, 1)
    assert message.headers() == headers


def test_a_record_near_the_limit_of_a_topic_is_kept_whole(bootstrap: str, topic: str) -> None:
    value = os.urandom(1_048_500)  # the default limit is 1,048,588 with the headers of batch and record

    send(new_producer(bootstrap, message_max_bytes=2_000_000), topic, [value, b"after"])

    first, second = read_all(bootstrap, topic, 2)
    assert first.value() == value
    assert second.value() == b"after"


def test_a_record_over_the_limit_of_its_topic_is_refused_and_the_next_one_is_not(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="10000")
    producer = new_producer(bootstrap)

    assert error_of(producer, topic, os.urandom(20_000)) == KafkaError.MSG_SIZE_TOO_LARGE
    send(producer, topic, [b"small"])

    assert [message.value() for message in read_all(bootstrap, topic, 1)] == [b"small"]


def test_a_large_record_is_read_although_it_exceeds_what_the_consumer_asked_for(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="5000000")
    values = [os.urandom(3_000_000), b"after"]
    send(new_producer(bootstrap, message_max_bytes=6_000_000), topic, values)

    messages = read_all(bootstrap, topic, 2, fetch_message_max_bytes=1000)

    assert [message.value() for message in messages] == values


def test_a_batch_survives_the_fetch_in_which_it_was_cut_off(bootstrap: str, topic: str) -> None:
    values = [os.urandom(900) for _ in range(3000)]
    send(new_producer(bootstrap, batch_size=50_000), topic, values)

    messages = read_all(bootstrap, topic, len(values), fetch_message_max_bytes=70_001)

    assert [message.value() for message in messages] == values


def test_the_time_given_by_the_producer_is_kept(bootstrap: str, topic: str) -> None:
    send(new_producer(bootstrap), topic, [b"v"], timestamp=1_600_000_000_123)

    (message,) = read_all(bootstrap, topic, 1)
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_600_000_000_123)


def test_a_topic_can_have_the_time_of_the_broker_instead(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)

    send(new_producer(bootstrap, compression_type="lz4"), topic, [b"a", b"b"], timestamp=1_600_000_000_123)

    for message in read_all(bootstrap, topic, 2, check_crcs=True):
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before <= timestamp <= int(time.time() * 1000)


def test_a_time_too_far_in_the_future_is_refused(bootstrap: str, topic: str) -> None:
    in_two_days = int(time.time() * 1000) + 2 * 86_400_000

    assert error_of(new_producer(bootstrap), topic, b"v", timestamp=in_two_days) == KafkaError.INVALID_TIMESTAMP


def test_an_idempotent_producer_keeps_the_order_with_five_requests_in_flight(bootstrap: str, topic: str) -> None:
    values = [str(number).encode() for number in range(20_000)]
    producer = new_producer(bootstrap, enable_idempotence=True, linger_ms=0, batch_num_messages=50)

    send(producer, topic, values)

    assert [message.value() for message in read_all(bootstrap, topic, len(values))] == values


def test_an_unknown_topic_is_made_when_it_is_first_written_to(bootstrap: str, unique: str) -> None:
    sent = send(new_producer(bootstrap), unique, [b"v"])

    assert [(message.topic(), message.partition(), message.offset()) for message in sent] == [(unique, 0, 0)]


def test_an_unknown_partition_is_refused(bootstrap: str, topic: str) -> None:
    producer = new_producer(bootstrap)
    send(producer, topic, [b"known"])

    code = error_of(new_producer(bootstrap, message_timeout_ms=2000), topic, b"v", partition=7)

    assert code == KafkaError._UNKNOWN_PARTITION


def test_a_hundred_partitions_are_written_and_read_at_once(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=100)
    producer = new_producer(bootstrap)
    for partition in range(100):
        for number in range(10):
            producer.produce(topic, f"{partition}/{number}", partition=partition)
    assert producer.flush(30) == 0

    messages = read_all(bootstrap, topic, 1000, partitions=range(100))

    for partition in range(100):
        values = [message.value() for message in messages if message.partition() == partition]
        assert values == [f"{partition}/{number}".encode() for number in range(10)]


def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_written(bootstrap: str, topic: str) -> None:
    consumer = new_consumer(bootstrap, fetch_wait_max_ms=30_000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = new_producer(bootstrap)
    send(producer, topic, [b"first"])
    read(consumer, 1)

    began = time.monotonic()
    send(producer, topic, [b"second"])
    (message,) = read(consumer, 1)

    assert message.value() == b"second"
    assert time.monotonic() - began < 5  # far less than the 30 s that the fetch may wait
    consumer.close()


def test_a_consumer_waits_for_the_number_of_bytes_that_it_asks_for(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 1)
    consumer = new_consumer(bootstrap, fetch_min_bytes=100_000, fetch_wait_max_ms=700)
    consumer.assign([TopicPartition(topic, 0, 0)])

    began = time.monotonic()
    read(consumer, 1)

    assert time.monotonic() - began > 0.6
    consumer.close()


def test_reading_starts_at_any_offset(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 500)
    for start in (0, 1, 250, 499):
        consumer = new_consumer(bootstrap)
        consumer.assign([TopicPartition(topic, 0, start)])
        assert read(consumer, 1)[0].offset() == start
        consumer.close()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"new")])
def test_an_offset_out_of_range_is_reset_as_the_consumer_wants(
    bootstrap: str, topic: str, reset: str, expected: bytes
) -> None:
    fill(bootstrap, topic, 10)
    consumer = new_consumer(bootstrap, auto_offset_reset=reset, enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, 1_000_000)])
    if reset == "latest":
        _read_to_end(consumer)
        send(new_producer(bootstrap), topic, [b"new"])

    value = next(message.value() for message in _forever(consumer) if message.error() is None)

    assert value == expected
    consumer.close()


def _read_to_end(consumer: Consumer) -> None:
    for message in _forever(consumer):
        if message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF:
            return


def _forever(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(20)
        assert message is not None
        yield message


def test_an_offset_out_of_range_is_told_to_a_consumer_that_wants_no_reset(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 10)
    consumer = new_consumer(bootstrap, auto_offset_reset="error")
    consumer.assign([TopicPartition(topic, 0, 1_000_000)])

    message = consumer.poll(20)

    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_outside_transactions_are_seen_at_every_isolation_level(
    bootstrap: str, topic: str, isolation: str
) -> None:
    fill(bootstrap, topic, 100)

    assert len(read_all(bootstrap, topic, 100, isolation_level=isolation)) == 100


def test_watermarks_are_the_ends_of_the_log(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 42)
    consumer = new_consumer(bootstrap)

    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 42)
    consumer.close()


def test_offsets_are_found_by_time(bootstrap: str, topic: str) -> None:
    producer = new_producer(bootstrap)
    for number in range(200):
        send(producer, topic, [str(number).encode()], timestamp=1_600_000_000_000 + number * 1000)
    consumer = new_consumer(bootstrap)

    def offset_at(timestamp: int) -> int:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=10)
        return int(found.offset)

    assert offset_at(0) == 0
    assert offset_at(1_600_000_000_000) == 0
    assert offset_at(1_600_000_099_999) == 100
    assert offset_at(1_600_000_100_000) == 100
    assert offset_at(1_600_000_199_000) == 199
    assert offset_at(1_600_000_199_001) == -1  # the end
    consumer.close()

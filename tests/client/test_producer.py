"""Sending, against a real node."""

import contextlib
import gc
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from confluent_kafka import murmur2

from ottla.client.delivery import DeliveryFuture
from ottla.client.errors import (
    ClientError,
    ClosedError,
    DeliveryError,
    SerializationError,
    UndeliveredError,
)
from ottla.client.message import Message
from ottla.client.producer import Producer
from ottla.client.settings import AckMode, ProducerConfig
from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic
from tests.client.waiting import eventually

four_partitions = pytest.mark.parametrize("ottla_topic", [4], indirect=True)
NOWHERE = "127.0.0.1:1"


def read(topic: OttlaTopic, count: int) -> list[Message]:
    """The first `count` records of a topic; fails if there are fewer."""
    consumer = topic.consumer()
    messages: list[Message] = []
    while len(messages) < count:
        batch = consumer.poll(10_000)
        assert batch, f"only {len(messages)} of {count} records came"
        messages += batch
    return messages


def end_offsets(topic: OttlaTopic) -> int:
    return sum(found.offset for found in topic.admin().topic_offsets(topic.name).values())


def test_a_record_that_was_sent_tells_where_it_is(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    before_ms = int(time.time() * 1000)

    first, second = (producer.send(ottla_topic.name, b"x").result(10) for _ in range(2))

    assert (first.topic, first.partition, first.offset, second.offset) == (ottla_topic.name, 0, 0, 1)
    assert before_ms <= first.timestamp <= before_ms + 60_000


def test_all_parts_of_a_record_arrive(ottla_topic: OttlaTopic) -> None:
    ottla_topic.producer().send(
        topic=ottla_topic.name,
        key="key",
        value={"temperature": 21.5},
        headers={"trace": b"1", "note": "text", "none": None},
        partition=0,
        timestamp_ms=1_700_000_000_000,
    ).result(10)

    [message] = read(ottla_topic, 1)

    assert (message.key, message.value, message.timestamp) == (b"key", b'{"temperature":21.5}', 1_700_000_000_000)
    assert list(message.headers) == [("trace", b"1"), ("note", b"text"), ("none", None)]


def test_a_record_without_a_value_is_a_null(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    producer.send(ottla_topic.name, None, b"key").result(10)
    producer.send(ottla_topic.name, b"", b"").result(10)

    null, empty = read(ottla_topic, 2)

    assert (null.value, null.key) == (None, b"key")
    assert (empty.value, empty.key) == (b"", b"")


@four_partitions
def test_a_key_goes_where_every_kafka_client_sends_it(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    keys = [f"client-{number}" for number in range(20)]

    partitions = [producer.send(ottla_topic.name, b"x", key).result(10).partition for key in keys]

    assert partitions == [murmur2(key.encode(), 4) for key in keys]
    assert len(set(partitions)) == 4


def test_a_topic_comes_to_be_when_it_is_first_written_to(ottla_node: OttlaNode) -> None:
    name = f"first-use-{time.monotonic_ns()}"

    assert ottla_node.producer().send(name, b"x").result(20).offset == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(ottla_topic: OttlaTopic, compression: str) -> None:
    producer = ottla_topic.producer(compression_type=compression, linger_ms=20)
    for number in range(100):
        producer.send(ottla_topic.name, f"{number} " * 20)
    producer.flush()

    assert [message.value.decode() for message in read(ottla_topic, 100)] == [f"{n} " * 20 for n in range(100)]


@pytest.mark.parametrize("acks", AckMode)
def test_every_kind_of_acknowledgement_works(ottla_topic: OttlaTopic, acks: AckMode) -> None:
    offset = ottla_topic.producer(acks=acks).send(ottla_topic.name, b"x").result(10).offset

    assert offset == (-1 if acks is AckMode.NONE else 0)
    assert read(ottla_topic, 1)[0].value == b"x"


def test_serializers_are_used_for_all_values(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer(key_serializer=lambda key: b"k:%d" % key, value_serializer=lambda data: data[::-1])

    producer.send(ottla_topic.name, b"abc", 7).result(10)

    [message] = read(ottla_topic, 1)
    assert (message.key, message.value) == (b"k:7", b"cba")


def test_a_value_without_bytes_is_refused_before_it_is_sent(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()

    with pytest.raises(SerializationError):
        producer.send(ottla_topic.name, object())

    assert len(producer) == 0


def test_a_record_that_is_too_large_is_refused(ottla_topic: OttlaTopic) -> None:
    with pytest.raises(ClientError, match="too large"):
        ottla_topic.producer().send(ottla_topic.name, bytes(2_000_000))


@four_partitions
def test_many_threads_share_a_producer_and_nothing_is_lost_or_doubled(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer(linger_ms=5)
    results: list[list[DeliveryFuture]] = [[] for _ in range(8)]

    def send(number: int) -> None:
        for count in range(2_000):
            results[number].append(producer.send(ottla_topic.name, b"%d:%d" % (number, count), b"%d" % count))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(60)

    places = {future.result(0)[1:3] for futures in results for future in futures}
    assert len(places) == 16_000
    assert end_offsets(ottla_topic) == 16_000
    sent = {b"%d:%d" % (number, count) for number in range(8) for count in range(2_000)}
    assert {message.value for message in read(ottla_topic, 16_000)} == sent


def test_closing_sends_what_is_waiting_at_once(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer(linger_ms=60_000)
    futures = [producer.send(ottla_topic.name, b"x") for _ in range(100)]
    assert not any(future.done() for future in futures)

    producer.close(30)

    assert [future.result(0).offset for future in futures] == list(range(100))


def test_a_closed_producer_refuses_and_may_be_closed_again(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    producer.close()
    producer.close()

    with pytest.raises(ClosedError):
        producer.send(ottla_topic.name, b"x")
    with pytest.raises(ClosedError):
        producer.start()


def test_a_producer_that_was_never_used_may_be_flushed_and_closed() -> None:
    producer = Producer(bootstrap_servers=NOWHERE)

    producer.flush()
    producer.close()


def test_sending_while_another_thread_closes_leaves_no_future_open(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer()
    futures: list[DeliveryFuture] = []
    started = threading.Event()

    def send_until_refused() -> None:
        with contextlib.suppress(ClosedError):
            while True:
                futures.append(producer.send(ottla_topic.name, b"x"))
                started.set()

    thread = threading.Thread(target=send_until_refused)
    thread.start()
    started.wait(10)
    producer.close(30)
    thread.join(30)

    assert all(future.done() for future in futures)
    delivered = sum(future.exception(0) is None for future in futures)
    assert end_offsets(ottla_topic) == delivered


def nowhere(**settings: Any) -> Producer:
    return Producer(ProducerConfig(bootstrap_servers=NOWHERE, linger_ms=0, **settings)).start()


def test_a_record_that_cannot_be_delivered_fails_in_time() -> None:
    with nowhere(delivery_timeout_ms=300) as producer, pytest.raises(DeliveryError):
        producer.send("t", b"x").result(30)


def test_flushing_reports_a_failure_that_nobody_has_seen_and_only_once() -> None:
    producer = nowhere(delivery_timeout_ms=300)
    producer.send("t", b"x")

    with pytest.raises(UndeliveredError) as caught:
        producer.flush(30)

    assert (caught.value.failed, caught.value.waiting) == (1, 0)
    producer.flush(30)
    producer.close()


def test_flushing_for_too_short_a_time_says_how_much_is_waiting() -> None:
    producer = nowhere(delivery_timeout_ms=60_000)
    futures = [producer.send("t", b"x") for _ in range(3)]

    with pytest.raises(UndeliveredError) as caught:
        producer.flush(0.1)
    assert caught.value.waiting == 3

    with pytest.raises(UndeliveredError, match="3 records were given up"):
        producer.close(0.1)
    assert all(isinstance(future.exception(0), DeliveryError) for future in futures)


def test_the_error_that_ended_a_block_is_not_hidden_by_the_report() -> None:
    def fail() -> None:
        with nowhere(delivery_timeout_ms=300) as producer:
            producer.send("t", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_forgotten_producer_is_flushed_when_it_is_collected(ottla_topic: OttlaTopic) -> None:
    config = ProducerConfig(bootstrap_servers=ottla_topic.bootstrap_servers, linger_ms=60_000)
    future = Producer(config).send(ottla_topic.name, b"x")

    gc.collect()

    assert future.result(10).offset == 0


def test_a_program_that_ends_without_closing_loses_nothing(ottla_topic: OttlaTopic) -> None:
    program = f"""
from ottla import Producer, ProducerConfig
producer = Producer(ProducerConfig(bootstrap_servers={ottla_topic.bootstrap_servers!r}, linger_ms=60_000))
for number in range(1000):
    producer.send({ottla_topic.name!r}, str(number))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

    assert end_offsets(ottla_topic) == 1000


def test_in_a_forked_process_a_producer_refuses_and_the_parent_goes_on(ottla_topic: OttlaTopic) -> None:
    program = f"""
import os
from ottla import Producer
from ottla.client.errors import ClosedError
producer = Producer(bootstrap_servers={ottla_topic.bootstrap_servers!r})
producer.send({ottla_topic.name!r}, b"parent").result(10)
child = os.fork()
if child == 0:
    try:
        producer.send({ottla_topic.name!r}, b"child")
    except ClosedError as error:
        os._exit(7 if "fork" in str(error) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
producer.send({ottla_topic.name!r}, b"parent again").result(10)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

    assert end_offsets(ottla_topic) == 2


def test_metrics_count_records_and_tell_of_batches(ottla_topic: OttlaTopic) -> None:
    producer = ottla_topic.producer(linger_ms=20, metrics_interval_ms=100)
    for _ in range(50):
        producer.send(ottla_topic.name, bytes(100))
    producer.flush()

    counted = producer.metrics()
    assert (counted.sent, counted.delivered, counted.failed, counted.waiting) == (50, 50, 0, 0)
    eventually(lambda: producer.metrics().batch_records_avg > 1)
    measured = producer.metrics()
    assert measured.batch_bytes_avg > 100
    assert measured.request_ms_p99 > 0


def test_the_partitions_of_a_topic_are_counted(ottla_topic: OttlaTopic) -> None:
    assert ottla_topic.producer().partitions_of(ottla_topic.name) == 1

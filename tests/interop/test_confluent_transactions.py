"""librdkafka's transactional producer and its readers of committed records against a running node."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.interop.confluent import new_consumer, new_producer
from tests.interop.conftest import MakeTopic
from tests.interop.node_process import NodeProcess
from tests.interop.waiting import eventually


def transactional(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    producer = new_producer(bootstrap, transactional_id=transactional_id, **settings)
    producer.init_transactions(30)
    return producer


def read_all(bootstrap: str, topic: str, partitions: int = 1, *, isolation: str = "read_committed") -> list[bytes]:
    """Everything up to where the partitions end for such a reader."""
    consumer = new_consumer(bootstrap, isolation_level=isolation, enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values, ended = [], set[int]()
    try:
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
            else:
                values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def test_what_is_committed_is_read_and_what_is_aborted_is_not(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    producer = transactional(bootstrap, topic)
    for number in range(10):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"%d" % number, partition=index)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    expected = Counter({b"%d" % number: 3 for number in range(10) if number % 3})
    assert Counter(read_all(bootstrap, topic, 3)) == expected


def test_an_open_transaction_holds_readers_of_committed_records_back(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    plain = new_producer(bootstrap)
    plain.produce(topic, b"plain")
    assert plain.flush(30) == 0

    assert read_all(bootstrap, topic) == []
    assert read_all(bootstrap, topic, isolation="read_uncommitted") == [b"open", b"plain"]
    producer.commit_transaction(30)
    assert read_all(bootstrap, topic) == [b"open", b"plain"]


def test_the_second_of_two_producers_with_one_id_fences_the_first(bootstrap: str, topic: str) -> None:
    first = transactional(bootstrap, topic)
    first.begin_transaction()
    first.produce(topic, b"zombie")
    assert first.flush(30) == 0
    second = transactional(bootstrap, topic)

    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(30)
    assert caught.value.args[0].fatal()
    assert caught.value.args[0].code() == KafkaError._FENCED
    second.begin_transaction()
    second.produce(topic, b"heir")
    second.commit_transaction(30)
    assert read_all(bootstrap, topic) == [b"heir"]


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, topic, transaction_timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(topic, b"slow")
    assert producer.flush(30) == 0
    plain = new_producer(bootstrap)
    plain.produce(topic, b"after")
    assert plain.flush(30) == 0

    eventually(lambda: read_all(bootstrap, topic) == [b"after"])
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def copy(bootstrap: str, source: str, target: str, upto: int, *, transactional_id: str, per_transaction: int) -> None:
    """Read, write and commit what was read, as one: until `upto` records were copied."""
    producer = transactional(bootstrap, transactional_id)
    consumer = new_consumer(bootstrap, group=f"g-{source}", isolation_level="read_committed")
    consumer.subscribe([source])
    copied = 0
    try:
        while copied < upto:
            messages = consumer.consume(per_transaction, 1)
            if messages:
                producer.begin_transaction()
                _copy_some(producer, consumer, messages, target)
                producer.commit_transaction(30)
                copied += len(messages)
    finally:
        consumer.close()


def _copy_some(producer: Producer, consumer: Consumer, messages: list[Message], target: str) -> None:
    for message in messages:
        assert message.error() is None
        producer.produce(target, message.value())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)


def test_records_are_copied_exactly_once_with_their_offsets(bootstrap: str, make_topic: MakeTopic) -> None:
    source, target = make_topic(3), make_topic(2)
    plain = new_producer(bootstrap)
    values = [b"%d" % number for number in range(300)]
    for value in values:
        plain.produce(source, value)
    assert plain.flush(30) == 0

    copy(bootstrap, source, target, 150, transactional_id=f"{source}-a", per_transaction=10)
    copy(bootstrap, source, target, 100, transactional_id=f"{source}-a", per_transaction=25)
    rest = 300 - len(read_all(bootstrap, target, 2))
    copy(bootstrap, source, target, rest, transactional_id=f"{source}-a", per_transaction=7)

    assert sorted(read_all(bootstrap, target, 2)) == sorted(values)


def test_transactions_go_on_over_kills_of_the_node(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        producer = transactional(node.bootstrap, "killed", message_timeout_ms=60_000)
        committed = set[bytes]()
        unknown = set[bytes]()
        for number in range(30):
            value = b"%d" % number
            try:
                producer.begin_transaction()
                for index in range(4):
                    producer.produce("kills", value, key=b"%d" % index)
                    if number % 5 == 2 and index == 2:
                        producer.flush(30)
                        node.kill()
                        node.start()
                producer.commit_transaction(60)
                committed.add(value)
            except KafkaException as error:
                unknown.add(value)
                if error.args[0].txn_requires_abort():
                    producer.abort_transaction(60)
                else:
                    raise
        counts = Counter(read_all(node.bootstrap, "kills"))

    assert set(counts) <= committed | unknown
    assert committed <= set(counts)
    assert set(counts.values()) == {4}
    assert len(committed) > 20


def test_a_node_that_is_stopped_and_started_keeps_open_transactions(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        producer = transactional(node.bootstrap, "kept")
        producer.begin_transaction()
        producer.produce("kept", b"1")
        assert producer.flush(30) == 0
        assert node.stop() in (0, -signal.SIGTERM)
        node.start()
        producer.produce("kept", b"2")
        producer.commit_transaction(60)
        assert read_all(node.bootstrap, "kept") == [b"1", b"2"]

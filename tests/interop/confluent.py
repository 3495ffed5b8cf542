"""Short forms for what the tests do with confluent-kafka."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

Sent = list[Message]


def new_producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 2} | _dotted(settings))


def new_consumer(bootstrap: str, group: str = "unused", **settings: Any) -> Consumer:
    defaults = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({"bootstrap.servers": bootstrap, **defaults} | _dotted(settings))


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    """librdkafka's names; callbacks keep theirs."""
    return {name if callable(value) else name.replace("_", "."): value for name, value in settings.items()}


class Deliveries:
    """Collects delivery reports; `errors` and `delivered` are in order of arrival."""

    def __init__(self) -> None:
        self.delivered: Sent = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.delivered.append(message)


def send(producer: Producer, topic: str, values: Iterable[bytes | None], **options: Any) -> Sent:
    """Produce, wait for all acknowledgements, and fail if one is an error."""
    deliveries = Deliveries()
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=deliveries, **options)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(30) == 0
    assert deliveries.errors == []
    return deliveries.delivered


def error_of(producer: Producer, topic: str, value: bytes, **options: Any) -> int:
    """The error code that producing one record ends with."""
    deliveries = Deliveries()
    producer.produce(topic, value, on_delivery=deliveries, **options)
    assert producer.flush(30) == 0
    assert len(deliveries.errors) == 1
    return int(deliveries.errors[0].code())


def read(consumer: Consumer, count: int, *, within_s: float = 30) -> list[Message]:
    """The next `count` messages."""
    messages: list[Message] = []
    deadline = time.monotonic() + within_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages within {within_s} s"
        for message in consumer.consume(count - len(messages), 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            messages.append(message)
    return messages


def read_all(
    bootstrap: str, topic: str, count: int, *, partitions: Sequence[int] = (0,), **settings: Any
) -> list[Message]:
    """Read `count` messages from the beginning of some partitions, without a group."""
    consumer = new_consumer(bootstrap, **settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    try:
        return read(consumer, count)
    finally:
        consumer.close()


def fill(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> None:
    """`count` records b"0", b"1", … in one partition."""
    producer = new_producer(bootstrap)
    send(producer, topic, [str(number).encode() for number in range(count)], partition=partition)

"""Copies records from one topic to another, exactly once: read, write and commit the offsets in one transaction.

python -m tests.cluster.copier BOOTSTRAP SOURCE TARGET TRANSACTIONAL_ID. Goes on until it is killed.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer

PER_TRANSACTION = 20


def copy(bootstrap: str, source: str, target: str, transactional_id: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"copy-{source}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
        }
    )
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
    )
    producer.init_transactions(60)
    consumer.subscribe([source])
    while True:
        messages = [message for message in consumer.consume(PER_TRANSACTION, 0.2) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(target, message.value(), key=message.value())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(60)
            _go_back(consumer)


def _go_back(consumer: Consumer) -> None:
    """To what is committed: what was read since then is read again."""
    for partition in consumer.committed(consumer.assignment(), 60):
        if partition.offset < 0:
            partition.offset = 0
        consumer.seek(partition)


if __name__ == "__main__":
    copy(*sys.argv[1:])

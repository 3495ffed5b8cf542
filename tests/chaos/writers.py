"""Clients that write all the time, and what they were promised."""

import threading
from pathlib import Path

from confluent_kafka import Message, Producer, TopicPartition

from tests.chaos.weather import PARTITIONS, TOPIC
from tests.interop.confluent import Deliveries, new_consumer, new_producer, read_all
from tests.robustness.kill_loop import check

PAUSE_S = 0.004


class Writers:
    """Idempotent producers with acks=all, each in a thread of its own."""

    def __init__(self, bootstrap: str, count: int = 2) -> None:
        self.deliveries = [Deliveries() for _ in range(count)]
        self.producers: list[Producer] = [
            new_producer(bootstrap, enable_idempotence=True, linger_ms=0, message_timeout_ms=0) for _ in range(count)
        ]
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, writer: int) -> None:
        producer, deliveries, number = self.producers[writer], self.deliveries[writer], 0
        while not self._over.is_set():
            value = b"%d-%d" % (writer, number)
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=deliveries)
            except BufferError:
                producer.poll(0.1)
                continue
            number += 1
            producer.poll(PAUSE_S)

    @property
    def acknowledged(self) -> int:
        return sum(len(each.delivered) for each in self.deliveries)

    def stop(self) -> list[str]:
        """What went wrong: a write that failed, or was never answered."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        left = sum(producer.flush(120) for producer in self.producers)
        problems = [f"{left} records were never answered"] if left else []
        return problems + [f"a write failed: {error}" for each in self.deliveries for error in each.errors]

    def check(self, bootstrap: str) -> list[str]:
        """What was acknowledged is there, where it was said to be, and nothing is there twice or out of order."""
        stored = _stored(bootstrap)
        acknowledged = [message for each in self.deliveries for message in each.delivered]
        return check(acknowledged, stored) + _out_of_order(stored)


def _stored(bootstrap: str) -> list[Message]:
    consumer = new_consumer(bootstrap)
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=60)[1] for index in range(PARTITIONS)]
    consumer.close()
    return read_all(bootstrap, TOPIC, sum(ends), partitions=range(PARTITIONS))


def _out_of_order(stored: list[Message]) -> list[str]:
    problems: list[str] = []
    newest: dict[tuple[int | None, bytes], int] = {}
    for message in sorted(stored, key=lambda message: (message.partition(), message.offset())):
        writer, _, number = (message.value() or b"").partition(b"-")
        at = (message.partition(), writer)
        if int(number) <= newest.get(at, -1):
            problems.append(f"out of order: {message.value()!r} at {message.partition()}, {message.offset()}")
        newest[at] = int(number)
    return problems


def copies_that_differ(data_dirs: list[Path]) -> list[str]:
    """Of nodes that have stopped: every replica must hold the same bytes."""
    problems = []
    for index in range(PARTITIONS):
        copies = [_bytes_of(data_dir / f"{TOPIC}-{index}") for data_dir in data_dirs]
        if len(set(copies)) != 1:
            problems.append(f"{TOPIC}-{index} differs: {[len(copy) for copy in copies]} bytes")
    return problems


def _bytes_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

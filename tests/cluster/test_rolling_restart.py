"""All nodes are stopped and started again, one after the other, while a producer writes with acks=all.

No write may fail (the client may try again), and nothing that was acknowledged may be missing, moved or there twice.
The same with kill -9 instead of a stop.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.cluster.processes import ClusterNode, ClusterProcesses
from tests.interop.confluent import Deliveries, new_consumer, new_producer, read_all
from tests.interop.waiting import eventually
from tests.robustness.kill_loop import check
from tests.robustness.raw_client import create_topic

ROUNDS = int(os.environ.get("ROUNDS", "1"))
TOPIC = "rolling"
PARTITIONS = 6
PAUSE_S = 0.002
STANDSTILL_S_MAX = 5.0
"""Many times what it takes. If nobody took over before a session has run out, it would be longer."""


class Writer:
    """Writes in a thread of its own until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.deliveries = Deliveries()
        self.standstill_s = 0.0
        """The longest time without an acknowledgement."""
        # What it says of its producer epoch is shown if a test fails: a new one sends again what was in flight.
        self.producer: Producer = new_producer(bootstrap, enable_idempotence=True, linger_ms=0, debug="eos")
        self._last = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            self.producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            number += 1
            self.producer.poll(PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now = time.monotonic()
        self.standstill_s = max(self.standstill_s, now - self._last)
        self._last = now
        self.deliveries(error, message)

    def stop(self) -> int:
        """How many records were never answered."""
        self._over.set()
        self._thread.join()
        left: int = self.producer.flush(60)
        return left


@contextmanager
def writing(cluster: ClusterProcesses) -> Iterator[Writer]:
    writer = Writer(cluster.bootstrap)
    try:
        yield writer
    finally:
        writer.stop()


def all_in_sync(writer: Writer) -> bool:
    partitions = writer.producer.list_topics(TOPIC, 10).topics[TOPIC].partitions.values()
    return all(len(partition.isrs) == 3 for partition in partitions)


def until_more_than(count: int, writer: Writer) -> None:
    eventually(lambda: len(writer.deliveries.delivered) > count, within_s=30, what="another delivery")


def stop_cleanly(node: ClusterNode) -> None:
    assert node.stop() == 0
    assert "Traceback" not in node.log()


def stored(bootstrap: str) -> list[Message]:
    consumer = new_consumer(bootstrap)
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=30)[1] for index in range(PARTITIONS)]
    consumer.close()
    return read_all(bootstrap, TOPIC, sum(ends), partitions=range(PARTITIONS))


@pytest.mark.parametrize("end", [stop_cleanly, ClusterNode.kill], ids=["stop", "kill"])
def test_nodes_are_restarted_one_by_one_under_load(tmp_path: Path, end: Callable[[ClusterNode], None]) -> None:
    with ClusterProcesses(tmp_path, 3, "--set", "log.min_insync_replicas=2") as cluster:
        create_topic(cluster.node(1).bootstrap, TOPIC, partitions=PARTITIONS, replicas=3)
        with writing(cluster) as writer:
            until_more_than(0, writer)
            for node in [*cluster.nodes.values()] * ROUNDS:
                before = len(writer.deliveries.delivered)
                end(node)
                node.start()
                eventually(lambda: all_in_sync(writer), within_s=60, what=f"all in sync\n{cluster.logs()}")
                until_more_than(before, writer)
            assert writer.stop() == 0, cluster.logs()
            assert writer.deliveries.errors == []
            problems = check(writer.deliveries.delivered, stored(cluster.bootstrap))
            assert problems == [], cluster.logs()
            assert writer.standstill_s < STANDSTILL_S_MAX, cluster.logs()

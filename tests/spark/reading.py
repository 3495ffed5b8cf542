"""Topics of a test, written and read without Spark."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack

from confluent_kafka import Producer

from ottla.testing.pytest_plugin import Clients
from pyspark_ottla.decoding import COLUMNS, Range
from pyspark_ottla.fetching import FetchSettings, read_range
from pyspark_ottla.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from pyspark_ottla.transactions import open_transactions
from pyspark_ottla.wire import Cluster

SETTINGS = FetchSettings(
    isolation=READ_COMMITTED,
    partition_bytes_max=1_000_000,
    wait_ms_max=100,
    timeout_s=20,
    fails_on_data_loss=True,
    checks_crcs=True,
)
_numbers = itertools.count(1)


class Topics:
    """Makes topics, and says what is in them."""

    def __init__(self, node: Clients, test: str) -> None:
        self.node = node
        self.bootstrap = node.bootstrap_servers
        self.opened = ExitStack()
        """What is closed after the test."""
        self._test = re.sub(r"[^A-Za-z0-9]+", "-", test)[:60]

    def create(self, partitions: int = 1) -> str:
        name = f"{self._test}-{next(_numbers)}"
        self.node.admin().create_topic(name, partitions=partitions)
        return name

    def fill(self, topic: str, values: list[bytes], **settings: object) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **settings})
        for value in values:
            producer.produce(topic, value, value)
        producer.flush()

    def committed(self, topic: str) -> list[bytes]:
        """All values that a reader of committed records sees, sorted."""
        values: list[bytes] = []
        with Cluster(self.bootstrap, timeout_s=20) as cluster:
            found = cluster.topics([topic])[topic]
            for partition in found.leaders:
                at = (topic, partition)
                start = list_offsets(cluster, {at: EARLIEST}, READ_COMMITTED)[at]
                end = list_offsets(cluster, {at: LATEST}, READ_COMMITTED)[at]
                wanted = Range(topic=topic, topic_id=found.topic_id, partition=partition, start=start, end=end)
                for batch in read_range(cluster, wanted, COLUMNS, SETTINGS):
                    values += batch.column("value").to_pylist()
        return sorted(values)

    def open_transactions(self) -> list[str]:
        with Cluster(self.bootstrap, timeout_s=20) as cluster:
            return open_transactions(cluster, "ottla-spark-")

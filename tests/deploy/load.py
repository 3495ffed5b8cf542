"""What a cluster is used for, all at once, so that every figure has something to tell: `python -m tests.deploy.load`.

A process of its own, which runs where the pods' names are known, until it is told to stop.
"""

from __future__ import annotations

import signal
import sys
import time

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

TOPIC = "measured"
GROUP, SLOW_GROUP = "billing", "slow"
OUT_OF_RANGE = 10**9
ROUND_RECORDS = 50
ROUND_S = 0.1
HTTP_EVERY_S = 0.5


class Load:
    def __init__(self, bootstrap: str, urls: list[str]) -> None:
        self._servers = {"bootstrap.servers": bootstrap}
        self._http = [httpx.Client(base_url=url, timeout=30) for url in urls]
        self._producer = Producer({**self._servers, "acks": "all", "linger.ms": 0})
        self._reader = self._consumer(GROUP)
        self._reader.subscribe([TOPIC])
        self._lost = self._consumer("lost")
        self._is_over = False

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {**self._servers, "group.id": group, "auto.offset.reset": "error" if group == "lost" else "earliest"}
        )

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._end)
        slow = self._consumer(SLOW_GROUP)
        slow.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)  # and it never comes back
        slow.close()
        http_at = 0.0
        while not self._is_over:
            self._exchange()
            if time.monotonic() >= http_at:
                http_at = time.monotonic() + HTTP_EVERY_S
                self._use_http()
                self._go_astray()
        self._reader.close()
        self._lost.close()

    def _end(self, *_: object) -> None:
        self._is_over = True

    def _exchange(self) -> None:
        for number in range(ROUND_RECORDS):
            self._producer.produce(TOPIC, key=str(number), value=b"x" * 100)
        self._producer.flush(10)
        self._reader.consume(ROUND_RECORDS, timeout=ROUND_S)

    def _use_http(self) -> None:
        for client in self._http:
            client.post(f"/topics/{TOPIC}/produce", json={"value": "by http"})
            client.get(f"/topics/{TOPIC}/partitions/1/consume", params={"offset": "earliest"})

    def _go_astray(self) -> None:
        """Read where there is nothing."""
        self._lost.assign([TopicPartition(TOPIC, partition, OUT_OF_RANGE) for partition in range(6)])
        self._lost.poll(ROUND_S)


if __name__ == "__main__":
    Load(sys.argv[1], sys.argv[2:]).run()

"""Members of a consumer group in a process of their own: `python -m bench.members SERVERS TOPIC GROUP COUNT`.

A separate process can be killed, and then it is gone without a word, as crashed consumers are. It reads commands from
its standard input (`join`, `leave`) and writes a line of JSON for every change of an assignment: when (on the clock
that all processes of a machine share), which member, and its partitions.
"""

import json
import select
import sys
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, TopicPartition

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500
POLL_EVERY_S = 0.005


def _tell(member: int, partitions: Sequence[TopicPartition]) -> None:
    changed = {"at": time.monotonic(), "member": member, "partitions": [one.partition for one in partitions]}
    print(json.dumps(changed), flush=True)


def _assigned(member: int) -> Callable[[Consumer, list[TopicPartition]], None]:
    def on_assign(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _tell(member, partitions)

    return on_assign


def _revoked(member: int) -> Callable[[Consumer, list[TopicPartition]], None]:
    def on_revoke(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        _tell(member, [])

    return on_revoke


def _join(servers: str, topic: str, group: str, count: int) -> list[Consumer]:
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumers = []
    for member in range(count):
        consumer = Consumer(settings)
        consumer.subscribe([topic], on_assign=_assigned(member), on_revoke=_revoked(member))
        consumers.append(consumer)
    return consumers


def main(servers: str, topic: str, group: str, count: int) -> None:
    consumers: list[Consumer] = []
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], POLL_EVERY_S)
        command = sys.stdin.readline().strip() if readable else ""
        if command == "join":
            consumers = _join(servers, topic, group, count)
        elif command == "leave":
            for consumer in consumers:
                consumer.close()
            consumers = []
        elif readable:
            return
        for consumer in consumers:
            consumer.poll(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

"""How long writers stand still when a node of a cluster dies or leaves.

A librdkafka producer with default settings (acks=all) writes to all partitions every few milliseconds. What is reported
is the longest time between two acknowledgements of one partition after the event: of the worst partition that the node
led, and of the worst of the others.
"""

import os
import signal
import time
from collections.abc import Callable

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.native import Measured
from bench.setting import Setting

PARTITIONS = 6
STEADY_S = 4.0
WATCH_S = 15.0
EVERY_S = 0.01


class Gaps:
    """The longest time between two acknowledgements, by partition."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.longest_s = [0.0] * PARTITIONS
        self._last = [time.monotonic()] * PARTITIONS

    def on_delivery(self, partition: int) -> Callable[[object, Message], None]:
        def delivered(error: object, _message: Message) -> None:
            if error is not None:
                self.failed += 1
                return
            self.acknowledged += 1
            self._note(partition)

        return delivered

    def _note(self, partition: int) -> None:
        now = time.monotonic()
        self.longest_s[partition] = max(self.longest_s[partition], now - self._last[partition])
        self._last[partition] = now

    def begin(self) -> None:
        """Forget what was before."""
        self.longest_s = [0.0] * PARTITIONS

    def end(self) -> None:
        """A partition that has not been heard of since has a gap too."""
        for partition in range(PARTITIONS):
            self._note(partition)


def _measure(at: Setting, signal_number: signal.Signals, *, controller: bool) -> Measured:
    cluster = at.spare()
    cluster.start()
    try:
        return _fail_over(cluster.bootstrap, cluster.ports, cluster.pids, signal_number, controller=controller)
    finally:
        cluster.stop()


def _fail_over(
    bootstrap: str, ports: list[int], pids: list[int], signal_number: signal.Signals, *, controller: bool
) -> Measured:
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(quiet)
    topic = NewTopic("failover", PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["failover"].result()
    producer = Producer({**quiet, "acks": "all"})
    gaps = Gaps()
    _write(producer, gaps, STEADY_S)
    metadata = admin.list_topics("failover", timeout=10)
    leaders = {index: found.leader for index, found in metadata.topics["failover"].partitions.items()}
    chief = metadata.controller_id
    victim = chief if controller else next(node for node in leaders.values() if node != chief)
    gaps.begin()
    os.kill(pids[ports.index(metadata.brokers[victim].port)], signal_number)
    _write(producer, gaps, WATCH_S)
    gaps.end()
    producer.flush(30)
    led = [gaps.longest_s[index] for index, leader in leaders.items() if leader == victim]
    others = [gaps.longest_s[index] for index, leader in leaders.items() if leader != victim]
    return {"gap_led_s": max(led), "gap_others_s": max(others), "failed": gaps.failed, "written": gaps.acknowledged}


def _write(producer: Producer, gaps: Gaps, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for partition in range(PARTITIONS):
            producer.produce("failover", b"x" * 100, partition=partition, on_delivery=gaps.on_delivery(partition))
        producer.poll(EVERY_S)


def kill_follower(at: Setting) -> Measured:
    return _measure(at, signal.SIGKILL, controller=False)


def kill_controller(at: Setting) -> Measured:
    return _measure(at, signal.SIGKILL, controller=True)


def stop_follower(at: Setting) -> Measured:
    return _measure(at, signal.SIGTERM, controller=False)

"""How long a broker takes to compact a topic of ten million records over 100,000 keys, and what that costs others.

The topic is written first and told to be compacted then. The broker has written down how far a log is compacted (both
do, in the same file) when it is done. It looks for work every 15 seconds; what is measured begins when it has used more
CPU time than it did before. Meanwhile one connection writes a small record to another topic now and then: its p99 is
compared with the one from before, and what it cost before is taken off.
"""

import itertools
import os
import random
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.native import Measured
from bench.processes import family_rss_mb, tree_cpu_s
from bench.servers import Server
from bench.setting import Setting
from bench.wire import WireClient, wait_for_leaders
from ottla.protocol.records import Record, build_batch

RECORDS = 10_000_000
KEYS = 100_000
BATCH_RECORDS = 1_000
BATCHES_DIFFERENT = 1_000
VALUE_BYTES = 80
SEGMENT_BYTES = 64 << 20
WITHIN_S = 600.0
PROBE_EVERY_S = 0.01
QUIET_S = 8.0
BEGUN_CPU_S = 0.1
"""More CPU time than before by this: the compaction has begun."""
_CHECKPOINT = "cleaner-offset-checkpoint"
_run_numbers = itertools.count()


def compact(at: Setting) -> Measured:
    server = at.server
    number = next(_run_numbers)
    topic, other = f"compacted-{number}", f"beside-compaction-{number}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    config = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "1000"}
    topics = [NewTopic(topic, 1, 1, config=config), NewTopic(other, 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    wait_for_leaders(server.port, topic)
    wait_for_leaders(server.port, other)
    _fill(server, topic, RECORDS)
    os.sync()  # or the write-back of all that would not be quiet
    watched, probe, began = _Watched(server, 0), _Probe(server.port, other), time.monotonic()
    time.sleep(QUIET_S)
    quiet_ms = probe.stop_since(began)
    quiet_share = watched.stop() / (time.monotonic() - began)
    watched, probe = _Watched(server, quiet_share), _Probe(server.port, other)
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    try:
        done = _wait(server.directory, topic)
    finally:
        took_s = time.monotonic() - watched.begun_at
        busy_ms = probe.stop_since(watched.begun_at)
        cpu_s = max(watched.stop(), 0.01)
    for gone in admin.delete_topics([topic, other]).values():
        gone.result(30)
    return {
        "compact_s": took_s,
        "compact_cpu_s": cpu_s,
        "records_per_cpu_s": done / cpu_s,
        "peak_rss_mb": watched.most_mb,
        "p99_quiet_ms": _p99(quiet_ms),
        "p99_compacting_ms": _p99(busy_ms),
        "p99_growth": _p99(busy_ms) / max(_p99(quiet_ms), 0.01),
    }


def _batches() -> Iterator[bytes]:
    dice = random.Random(1)
    now_ms = int(time.time() * 1000)
    value = bytes(VALUE_BYTES)
    for _ in range(BATCHES_DIFFERENT):
        yield build_batch(
            [
                Record(key=b"key-%08d" % dice.randrange(KEYS), value=value, timestamp_ms=now_ms)
                for _ in range(BATCH_RECORDS)
            ]
        )


def _fill(server: Server, topic: str, records: int) -> None:
    batches = list(_batches())
    with WireClient(server.port) as client:
        for number in range(records // BATCH_RECORDS):
            client.produce(topic, batches[number % len(batches)])


def _wait(directory: Path, topic: str) -> int:
    """Until all that can be is compacted. Returns the number of records that have been gone over."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        active = max((int(path.stem) for path in directory.glob(f"*/{topic}-0/*.log")), default=0)
        for path in directory.glob(f"*/{_CHECKPOINT}"):
            for line in path.read_text().splitlines():
                if line.startswith(f"{topic} 0 ") and int(line.split()[2]) >= active > 0:
                    return int(line.split()[2])
        time.sleep(0.05)
    raise TimeoutError(f"the topic was not compacted within {WITHIN_S:.0f} s")


def _p99(times_ms: list[float]) -> float:
    return statistics.quantiles(times_ms, n=100)[98] if len(times_ms) > 1 else 0.0


class _Probe:
    """Writes one record after the other, with a pause between them."""

    def __init__(self, port: int, topic: str) -> None:
        self._client = WireClient(port)
        self._topic = topic
        self._times_ms: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        now_ms = int(time.time() * 1000)
        batch = build_batch([Record(key=b"k", value=bytes(100), timestamp_ms=now_ms)])
        while not self._is_over.wait(PROBE_EVERY_S):
            began = time.monotonic()
            self._client.produce(self._topic, batch)
            self._times_ms.append((began, (time.monotonic() - began) * 1000))

    def stop_since(self, since: float) -> list[float]:
        """How long those took that were sent since then."""
        self._is_over.set()
        self._thread.join()
        self._client.__exit__()
        return [took_ms for at, took_ms in self._times_ms if at >= since]


class _Watched:
    """CPU time and memory of a server and of the processes that it starts, and when it began to use more of it."""

    def __init__(self, server: Server, usual_share: float) -> None:
        """`usual_share`: the CPU time per second that it uses anyway."""
        self._pids = server.pids
        self._usual_share = usual_share
        self._before_s = sum(map(tree_cpu_s, self._pids))
        self._since = self.begun_at = time.monotonic()
        self.most_mb = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            self.most_mb = max(self.most_mb, sum(map(family_rss_mb, self._pids)))
            if self._used_s() < BEGUN_CPU_S:
                self.begun_at = time.monotonic()

    def _used_s(self) -> float:
        """Beyond what is usual."""
        used_s = sum(map(tree_cpu_s, self._pids)) - self._before_s
        return used_s - self._usual_share * (time.monotonic() - self._since)

    def stop(self) -> float:
        """The CPU time that it used beyond what is usual."""
        self._is_over.set()
        self._thread.join()
        return self._used_s()

"""How long a broker takes to compact a topic of ten million records over 100,000 keys, and what that costs others.

The topic is written first and told to be compacted then. The broker has written down how far a log is compacted (both
do, in the same file) when it is done. Until then it may also wait for its turn (both look every 15 seconds), so the
CPU time says more than the time. Meanwhile one connection writes a small record to another topic now and then: its p99
is compared with the one from before, and what it cost before is taken off.
"""

import itertools
import random
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.native import Measured
from bench.processes import family_cpu_s, family_rss_mb
from bench.servers import Server
from bench.setting import Setting
from bench.wire import WireClient, wait_for_leaders
from ottla.protocol.records import Record, build_batch

RECORDS = 5_000_000
"""Twice as many where the windows say so: `python -m bench full`."""
KEYS = 100_000
BATCH_RECORDS = 1_000
BATCHES_DIFFERENT = 1_000
VALUE_BYTES = 80
SEGMENT_BYTES = 64 << 20
WITHIN_S = 600.0
PROBE_EVERY_S = 0.01
QUIET_S = 5.0
_CHECKPOINT = "cleaner-offset-checkpoint"
_run_numbers = itertools.count()


def compact(at: Setting) -> Measured:
    server = at.server
    number = next(_run_numbers)
    topic, other = f"compacted-{number}", f"beside-compaction-{number}"
    records = int(RECORDS * at.windows.data_scale) // BATCH_RECORDS * BATCH_RECORDS
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    config = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "1000"}
    topics = [NewTopic(topic, 1, 1, config=config), NewTopic(other, 1, 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    wait_for_leaders(server.port, topic)
    wait_for_leaders(server.port, other)
    _fill(server, topic, records)
    watched, probe, began = _Watched(server), _Probe(server.port, other), time.monotonic()
    time.sleep(QUIET_S)
    quiet_ms = probe.stop()
    quiet_cpu_s, _ = watched.stop()
    quiet_share = quiet_cpu_s / (time.monotonic() - began)
    watched, probe, began = _Watched(server), _Probe(server.port, other), time.monotonic()
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    try:
        done = _wait(server.directory, topic)
    finally:
        took_s = time.monotonic() - began
        busy_ms = probe.stop()
        cpu_s, rss_mb = watched.stop()
    cpu_s = max(cpu_s - quiet_share * took_s, 0.01)
    for gone in admin.delete_topics([topic, other]).values():
        gone.result(30)
    return {
        "compact_s": took_s,
        "compact_cpu_s": cpu_s,
        "records_per_cpu_s": done / cpu_s,
        "peak_rss_mb": rss_mb,
        "p99_quiet_ms": _p99(quiet_ms),
        "p99_compacting_ms": _p99(busy_ms),
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
        self._times_ms: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        now_ms = int(time.time() * 1000)
        batch = build_batch([Record(key=b"k", value=bytes(100), timestamp_ms=now_ms)])
        while not self._is_over.wait(PROBE_EVERY_S):
            began = time.perf_counter()
            self._client.produce(self._topic, batch)
            self._times_ms.append((time.perf_counter() - began) * 1000)

    def stop(self) -> list[float]:
        self._is_over.set()
        self._thread.join()
        self._client.__exit__()
        return self._times_ms


class _Watched:
    """CPU time, and the most memory, of a server and of the processes that it starts."""

    def __init__(self, server: Server) -> None:
        self._pids = server.pids
        self._before_s = sum(map(family_cpu_s, self._pids))
        self._most_mb = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            self._most_mb = max(self._most_mb, sum(map(family_rss_mb, self._pids)))

    def stop(self) -> tuple[float, float]:
        self._is_over.set()
        self._thread.join()
        return sum(map(family_cpu_s, self._pids)) - self._before_s, self._most_mb

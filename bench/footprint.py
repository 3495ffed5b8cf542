"""What a broker takes: time to start, memory, many topics and partitions, and time to come back with much data.

Ready after a restart is when records are acknowledged again in several partitions of the topic that was written to,
asked for without pause: a broker may answer Metadata long before it has its logs.
"""

import statistics
import time

from bench.loads import Measure, consume, raw, rd, write_to_each
from bench.native import Measured, rdload
from bench.servers import Server
from bench.setting import Setting
from bench.topics import listed, new_name
from bench.wire import RequestFailedError, WireClient, wait_for_leaders
from ottla.protocol.records import Record, build_batch

RECOVERY_PARTITIONS = 6
RECORD_BYTES = 1000
READY_WITHIN_S = 600.0
ASKED_PARTITIONS = 16


def start_and_idle(at: Setting) -> Measured:
    """Start a spare server a few times, then leave the last one alone and see what it costs."""
    starts, cpus = [], []
    for number in range(at.windows.starts):
        spare = at.spare()
        spare.start()
        starts.append(spare.start_s)
        cpus.append(spare.start_cpu_s)
        if number < at.windows.starts - 1:
            spare.stop()
    time.sleep(2)  # what the start has set going is no part of idling
    before, began = spare.cpu_s(), time.monotonic()
    time.sleep(at.windows.idle_s)
    idle_percent = (spare.cpu_s() - before) / (time.monotonic() - began) * 100
    resident_mb = spare.rss_mb()
    spare.stop()
    return {
        "start_s": statistics.median(starts),
        "start_cpu_s": statistics.median(cpus),
        "idle_rss_mb": resident_mb,
        "idle_cpu_percent": idle_percent,
    }


def create_topics(at: Setting) -> Measured:
    """One topic at a time, then 1,000 in one request."""
    prefix = new_name("created")
    one = [f"{prefix}-one-{n}" for n in range(20)]
    many = [f"{prefix}-many-{n}" for n in range(1000)]
    times = []
    with WireClient(at.server.port) as client:
        for name in one:
            began = time.monotonic()
            client.create_topics([name], partitions=1, replicas=at.server.replicas)
            times.append(time.monotonic() - began)
        began, before = time.monotonic(), at.server.cpu_s()
        client.create_topics(many, partitions=1, replicas=at.server.replicas)
        thousand_s = time.monotonic() - began
        thousand_cpu_s = at.server.cpu_s() - before
        client.delete_topics([*one, *many])
    return {
        "one_topic_ms": statistics.median(times) * 1000,
        "thousand_topics_s": thousand_s,
        "thousand_topics_cpu_s": thousand_cpu_s,
    }


def memory(at: Setting) -> Measured:
    """Memory after whatever ran before."""
    return {"broker_rss_mb": at.server.rss_mb()}


def memory_under_load(at: Setting) -> Measured:
    """A spare server, new, under one load after the other: the most that it had at the end of one."""
    spare = at.spare()
    spare.start()
    loaded = Setting(server=spare, windows=at.windows, spare=at.spare)
    loads = (
        raw("loaded", connections=200, record_bytes=50),
        rd("loaded", "produce", record_bytes=1000),
        consume("loaded", record_bytes=1000, records=500_000),
    )
    try:
        return {"broker_rss_mb": max(load(loaded)["broker_rss_mb"] for load in loads)}
    finally:
        spare.stop()


def partitions(count: int) -> Measure:
    """A spare server with so many partitions, each of them written to, then started anew: after a stop and a crash."""

    def measure(at: Setting) -> Measured:
        spare = at.spare()
        spare.start()
        try:
            return _with_partitions(spare, count)
        finally:
            spare.stop()

    return measure


def _with_partitions(spare: Server, count: int) -> Measured:
    began = time.monotonic()
    with WireClient(spare.port) as client:
        client.create_topic("many", partitions=count, replicas=spare.replicas)
    created_s = time.monotonic() - began
    leaders = wait_for_leaders(spare.port, "many", within_s=READY_WITHIN_S)
    write_to_each("many", leaders)
    resident_mb = spare.rss_mb()
    began = time.monotonic()
    spare.end()
    stop_s = time.monotonic() - began
    clean_s = _back_s(spare, "many", count)
    write_to_each("many", leaders)
    spare.kill()
    return {
        "created_s": created_s,
        "partitions_rss_mb": resident_mb,
        "stop_s": stop_s,
        "restart_s": clean_s,
        "restart_killed_s": _back_s(spare, "many", count),
    }


def recovery(at: Setting) -> Measured:
    """A spare server with gigabytes of data is killed, and started again."""
    spare = at.spare()
    spare.start()
    try:
        with WireClient(spare.port) as client:
            client.create_topics(["big"], partitions=RECOVERY_PARTITIONS, replicas=spare.replicas)
        wait_for_leaders(spare.port, "big")
        filled = rdload(
            mode="fill",
            bootstrap=spare.bootstrap,
            pids=listed(spare.pids),
            topic="big",
            partitions=RECOVERY_PARTITIONS,
            record_bytes=RECORD_BYTES,
            count=int(at.windows.recovery_gb * 1e9 / RECORD_BYTES),
        )
        spare.kill()
        killed_s = _back_s(spare, "big", RECOVERY_PARTITIONS)
        cpu_s = spare.cpu_s()
        spare.end()
        return {
            "data_gb": filled["records"] * RECORD_BYTES / 1e9,
            "fill_mb_per_s": filled["mb_per_s"],
            "recovery_s": killed_s,
            "recovery_cpu_s": cpu_s,
            "restart_s": _back_s(spare, "big", RECOVERY_PARTITIONS),
        }
    finally:
        spare.stop()


def _back_s(server: Server, topic: str, count: int) -> float:
    """Start a server again; how long until it takes records for partitions all over the topic."""
    began = time.monotonic()
    server.start_again()
    deadline = began + READY_WITHIN_S
    batch = build_batch([Record(value=b"back", timestamp_ms=int(time.time() * 1000))])
    for partition in range(0, count, -(-count // ASKED_PARTITIONS)):
        while not _is_written(server.port, topic, partition, batch):
            if time.monotonic() > deadline:
                raise TimeoutError(f"partition {partition} takes no records {READY_WITHIN_S:.0f} s after a restart")
            time.sleep(0.002)
    return time.monotonic() - began


def _is_written(port: int, topic: str, partition: int, batch: bytes) -> bool:
    try:
        with WireClient(port) as client:
            client.produce(topic, batch, partition=partition)
    except (OSError, RequestFailedError):
        return False
    return True

"""What is measured, by name.

Each workload is a function of a running server and returns figures by name; the names that the report knows are
`rate` (per second), `mb_per_s`, `p50_ms` … `p999_ms`, `broker_cpu_us` (per request for the raw driver, per record for
librdkafka), `broker_rss_mb`. Every run writes to topics of its own and deletes them.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import compaction, failover, transactions
from bench.native import Measured, rawload, rdload
from bench.setting import Setting
from bench.topics import listed, new_name, new_topic
from bench.wire import WireClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    title: str
    measure: Callable[[Setting], Measured]


def _raw(name: str, *, partitions: int = 6, **options: object) -> Callable[[Setting], Measured]:
    def measure(at: Setting) -> Measured:
        with new_topic(at.server, name, partitions) as (topic, leaders):
            return rawload(
                leaders=listed(leaders),
                pids=listed(at.server.pids),
                topic=topic,
                partitions=partitions,
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
                **options,
            )

    return measure


def _rd(name: str, mode: str, *, partitions: int = 6, **options: object) -> Callable[[Setting], Measured]:
    def measure(at: Setting) -> Measured:
        with new_topic(at.server, name, partitions) as (topic, _):
            return rdload(
                mode=mode,
                bootstrap=at.server.bootstrap,
                pids=listed(at.server.pids),
                topic=topic,
                partitions=partitions,
                seconds=at.windows.seconds,
                warmup=at.windows.warmup_s,
                **options,
            )

    return measure


def _consume(name: str, *, record_bytes: int, records: int, partitions: int = 6) -> Callable[[Setting], Measured]:
    def measure(at: Setting) -> Measured:
        count = int(records * at.windows.data_scale)
        common: dict[str, object] = {"bootstrap": at.server.bootstrap, "pids": listed(at.server.pids), "count": count}
        common |= {"record_bytes": record_bytes, "partitions": partitions}
        with new_topic(at.server, name, partitions) as (topic, _):
            rdload(mode="fill", topic=topic, **common)
            return rdload(mode="consume", topic=topic, **common)

    return measure


def _start_and_idle(at: Setting) -> Measured:
    """Start a spare server a few times, then leave the last one alone and see what it costs."""
    starts, cpus = [], []
    for number in range(at.windows.starts):
        spare = at.spare()
        spare.start()
        starts.append(spare.start_s)
        cpus.append(spare.start_cpu_s)
        if number < at.windows.starts - 1:
            spare.stop()
    time.sleep(2)
    before, began = spare.cpu_s(), time.monotonic()
    time.sleep(at.windows.idle_s)
    idle_percent = (spare.cpu_s() - before) / (time.monotonic() - began) * 100
    memory = spare.rss_mb()
    spare.stop()
    return {
        "start_s": statistics.median(starts),
        "start_cpu_s": statistics.median(cpus),
        "idle_rss_mb": memory,
        "idle_cpu_percent": idle_percent,
    }


def _create_topics(at: Setting) -> Measured:
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


def _many_partitions(at: Setting) -> Measured:
    """The same load on 6 and on 1,000 partitions: cost per request must not grow."""
    few = _raw("few", partitions=6, connections=200)(at)
    many = _raw("many", partitions=1000, connections=200)(at)
    growth = many["broker_cpu_us"] / few["broker_cpu_us"] if few["broker_cpu_us"] else 0.0
    return {**many, "broker_cpu_us_6": few["broker_cpu_us"], "rate_6": few["rate"], "cpu_growth": growth}


def _memory(at: Setting) -> Measured:
    """Memory after whatever ran before."""
    return {"broker_rss_mb": at.server.rss_mb()}


WORKLOADS = (
    Workload(
        name="produce_1conn", title="one-record requests, 1 connection", measure=_raw("produce_1conn", connections=1)
    ),
    Workload(
        name="produce_50conn",
        title="one-record requests, 50 connections",
        measure=_raw("produce_50conn", connections=50),
    ),
    Workload(
        name="produce_200conn",
        title="200 producers, one record at a time",
        measure=_raw("produce_200conn", connections=200),
    ),
    Workload(
        name="produce_200conn_v11",
        title="200 producers, Produce v11",
        measure=_raw("produce_200conn_v11", connections=200, version=11),
    ),
    Workload(
        name="batches_100b",
        title="100 B records in 16 KiB batches, acks=all",
        measure=_rd("batches_100b", "produce", record_bytes=100, batch_bytes=16384),
    ),
    Workload(
        name="batches_1kb",
        title="1 KB records in 16 KiB batches, acks=all",
        measure=_rd("batches_1kb", "produce", record_bytes=1000, batch_bytes=16384),
    ),
    Workload(
        name="default_100b",
        title="100 B, librdkafka's default batching",
        measure=_rd("default_100b", "produce", record_bytes=100),
    ),
    Workload(
        name="default_1kb",
        title="1 KB, librdkafka's default batching",
        measure=_rd("default_1kb", "produce", record_bytes=1000),
    ),
    Workload(
        name="consume_100b",
        title="consume 100 B",
        measure=_consume("consume_100b", record_bytes=100, records=6_000_000),
    ),
    Workload(
        name="consume_1kb", title="consume 1 KB", measure=_consume("consume_1kb", record_bytes=1000, records=1_500_000)
    ),
    Workload(
        name="e2e_1k",
        title="end to end, 1,000 x 1 KB per second",
        measure=_rd("e2e_1k", "latency", record_bytes=1000, rate=1000, linger_ms=0),
    ),
    Workload(
        name="e2e_10k",
        title="end to end, 10,000 x 1 KB per second",
        measure=_rd("e2e_10k", "latency", record_bytes=1000, rate=10_000, linger_ms=0),
    ),
    Workload(name="start", title="start, memory and CPU when idle", measure=_start_and_idle),
    Workload(name="topics", title="one topic; 1,000 topics in one request", measure=_create_topics),
    Workload(name="partitions_1000", title="200 producers over 1,000 partitions", measure=_many_partitions),
    Workload(
        name="partitions_512",
        title="200 producers over 512 partitions",
        measure=_raw("partitions_512", partitions=512, connections=200),
    ),
    Workload(
        name="request_512",
        title="1 KB to each of 512 partitions in one request, 1 connection",
        measure=_raw("request_512", partitions=512, per_request=512, record_bytes=1000, connections=1),
    ),
    Workload(
        name="one_partition_produce",
        title="1 KB in 16 KiB batches to one partition",
        measure=_rd("one_partition_produce", "produce", partitions=1, record_bytes=1000, batch_bytes=16384),
    ),
    Workload(
        name="one_partition_consume",
        title="consume 1 KB from one partition",
        measure=_consume("one_partition_consume", partitions=1, record_bytes=1000, records=1_500_000),
    ),
    Workload(
        name="transactions",
        title="transactions of 10 records over 3 partitions, one after the other",
        measure=transactions.one_after_the_other,
    ),
    Workload(
        name="read_committed",
        title="consume committed records among many small transactions, one in five aborted",
        measure=transactions.read_committed,
    ),
    Workload(
        name="compaction",
        title="compact millions of records over 100,000 keys; one-record requests meanwhile",
        measure=compaction.compact,
    ),
    Workload(
        name="kill",
        title="longest gap between acks, kill -9 of a node: partitions that it led / others",
        measure=failover.kill_follower,
    ),
    Workload(
        name="kill_controller",
        title="the same, kill -9 of the controller",
        measure=failover.kill_controller,
    ),
    Workload(name="clean_stop", title="the same, clean stop of a node", measure=failover.stop_follower),
    Workload(name="memory", title="memory after this load", measure=_memory),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
FAILOVER = ("kill", "kill_controller", "clean_stop")
"""For clusters only."""
CLUSTER = (
    "default_1kb",
    "batches_1kb",
    "produce_1conn",
    "produce_200conn",
    "e2e_1k",
    "transactions",
    "topics",
    *FAILOVER,
    "start",
    "memory",
)
QUICK = ("produce_1conn", "produce_200conn", "batches_1kb", "default_1kb", "consume_1kb", "e2e_1k", "memory")

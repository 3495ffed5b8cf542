"""What is measured, by name.

Each workload is a function of a running server and returns figures by name; the names that the report knows are
`rate` (per second), `mb_per_s`, `p50_ms` … `p999_ms`, `broker_cpu_us` (per request for the raw driver, per record for
librdkafka), `broker_rss_mb`. Every run writes to topics of its own and deletes them.
"""

from bench import compaction, failover, footprint, growth, http_api, java_client, rebalance, throughput, transactions
from bench.loads import Workload, consume, raw, rd
from bench.native import Measured
from bench.setting import Setting


def _many_partitions(at: Setting) -> Measured:
    """The same load on 6 and on 1,000 partitions: cost per request must not grow."""
    few = raw("few", partitions=6, connections=200)(at)
    many = raw("many", partitions=1000, connections=200)(at)
    growth = many["broker_cpu_us"] / few["broker_cpu_us"] if few["broker_cpu_us"] else 0.0
    return {**many, "broker_cpu_us_6": few["broker_cpu_us"], "rate_6": few["rate"], "cpu_growth": growth}


WORKLOADS = (
    Workload(
        name="produce_1conn",
        title="one-record requests, 1 connection",
        measure=raw("produce_1conn", connections=1, record_bytes=50),
    ),
    Workload(
        name="produce_50conn",
        title="50 producers, one record at a time",
        measure=raw("produce_50conn", connections=50, record_bytes=50),
    ),
    Workload(
        name="produce_100conn",
        title="100 producers, one record at a time",
        measure=raw("produce_100conn", connections=100, record_bytes=50),
    ),
    Workload(
        name="produce_200conn",
        title="200 producers, one record at a time",
        measure=raw("produce_200conn", connections=200, record_bytes=50),
    ),
    Workload(
        name="produce_200conn_v11",
        title="200 producers, Produce v11",
        measure=raw("produce_200conn_v11", connections=200, version=11),
    ),
    Workload(
        name="batches_100b",
        title="100 B records in 16 KiB batches, acks=all",
        measure=rd("batches_100b", "produce", record_bytes=100, batch_bytes=16384),
    ),
    Workload(
        name="batches_1kb",
        title="1 KB records in 16 KiB batches, acks=all",
        measure=rd("batches_1kb", "produce", record_bytes=1000, batch_bytes=16384),
    ),
    Workload(
        name="default_100b",
        title="100 B, librdkafka's default batching",
        measure=rd("default_100b", "produce", record_bytes=100),
    ),
    Workload(
        name="default_1kb",
        title="1 KB, librdkafka's default batching",
        measure=rd("default_1kb", "produce", record_bytes=1000),
    ),
    Workload(
        name="consume_100b",
        title="consume 100 B",
        measure=consume("consume_100b", record_bytes=100, records=throughput.CONSUMED[100]),
    ),
    Workload(
        name="consume_1kb",
        title="consume 1 KB",
        measure=consume("consume_1kb", record_bytes=1000, records=throughput.CONSUMED[1000]),
    ),
    Workload(
        name="e2e_1k",
        title="end to end, 1,000 x 1 KB per second",
        measure=rd("e2e_1k", "latency", record_bytes=1000, rate=1000, linger_ms=0),
    ),
    Workload(
        name="e2e_10k",
        title="end to end, 10,000 x 1 KB per second",
        measure=rd("e2e_10k", "latency", record_bytes=1000, rate=10_000, linger_ms=0),
    ),
    Workload(
        name="e2e_50k",
        title="end to end, 50,000 x 1 KB per second",
        measure=rd("e2e_50k", "latency", record_bytes=1000, rate=50_000, linger_ms=0),
        extra_s=2.0,
    ),
    Workload(name="start", title="start, memory and CPU when idle", measure=footprint.start_and_idle, extra_s=15),
    Workload(name="topics", title="one topic; 1,000 topics in one request", measure=footprint.create_topics, extra_s=2),
    Workload(name="memory_loaded", title="memory under load", measure=footprint.memory_under_load, extra_s=10),
    Workload(
        name="with_1000_partitions",
        title="1,000 partitions: created; memory; stopped; back after a stop; after kill -9",
        measure=footprint.partitions(1_000),
        extra_s=15,
    ),
    Workload(
        name="with_10000_partitions",
        title="10,000 partitions: created; memory; stopped; back after a stop; after kill -9",
        measure=footprint.partitions(10_000),
        extra_s=40,
    ),
    Workload(
        name="recovery",
        title="much data, kill -9: back after; after a clean stop",
        measure=footprint.recovery,
        extra_s=60,
    ),
    Workload(name="partitions_1000", title="200 producers over 1,000 partitions", measure=_many_partitions),
    Workload(
        name="partitions_512",
        title="200 producers over 512 partitions",
        measure=raw("partitions_512", partitions=512, connections=200),
    ),
    Workload(
        name="request_512",
        title="1 KB to each of 512 partitions in one request, 1 connection",
        measure=raw("request_512", partitions=512, per_request=512, record_bytes=1000, connections=1),
    ),
    Workload(
        name="one_partition_produce",
        title="1 KB in 16 KiB batches to one partition",
        measure=rd("one_partition_produce", "produce", partitions=1, record_bytes=1000, batch_bytes=16384),
    ),
    Workload(
        name="one_partition_consume",
        title="consume 1 KB from one partition",
        measure=consume("one_partition_consume", partitions=1, record_bytes=1000, records=throughput.CONSUMED[1000]),
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
        name="http_produce_50conn",
        title="HTTP: POST produce, one message, 50 connections",
        measure=http_api.produce(connections=50),
    ),
    Workload(
        name="http_produce_200conn",
        title="HTTP: POST produce, one message, 200 connections",
        measure=http_api.produce(connections=200),
    ),
    Workload(
        name="http_ndjson",
        title="HTTP: POST produce, 1,000 lines of NDJSON, 8 connections",
        measure=http_api.produce(connections=8, batch=1_000),
    ),
    Workload(
        name="http_consume",
        title="HTTP: GET consume, 1,000 messages, 8 connections",
        measure=http_api.consume(records_per_batch=100),
    ),
    Workload(
        name="http_consume_single",
        title="HTTP: the same, of messages that were written one at a time",
        measure=http_api.consume(records_per_batch=1),
    ),
    Workload(name="http_memory", title="HTTP: memory of the API once it is loaded", measure=http_api.memory),
    Workload(
        name="http_idle",
        title="Kafka requests, 50 connections, while the HTTP API is loaded and idle",
        measure=http_api.beside,
    ),
    Workload(
        name="kill",
        title="longest gap between acks, kill -9 of a node: partitions that it led / others",
        measure=failover.kill_follower,
        extra_s=30,
    ),
    Workload(
        name="kill_controller",
        title="the same, kill -9 of the controller",
        measure=failover.kill_controller,
        extra_s=30,
    ),
    Workload(name="clean_stop", title="the same, clean stop of a node", measure=failover.stop_follower, extra_s=30),
    Workload(name="memory", title="memory after this load", measure=footprint.memory),
    *throughput.VARIED,
    *java_client.WORKLOADS,
    *growth.WORKLOADS,
    *rebalance.WORKLOADS,
)
BY_NAME = {workload.name: workload for workload in (*WORKLOADS, *throughput.PRODUCT)}
FAILOVER = ("kill", "kill_controller", "clean_stop")
"""For clusters only."""
HTTP = tuple(name for name in BY_NAME if name.startswith("http_"))
"""For Ottla only."""
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

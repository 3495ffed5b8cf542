"""What the project wants to reach, row by row; the report says where a figure misses its goal.

Durable goals hold for Ottla's default, page-cache goals for `durability: os`. A goal is a bound on one figure of a
workload: rates from below, times, CPU and memory from above.
"""

AT_LEAST = frozenset({"rate", "mb_per_s", "records_per_cpu_s"})

Goals = dict[str, dict[str, float]]

DURABLE: Goals = {
    "produce_1conn": {"rate": 4500, "p50_ms": 0.22, "broker_cpu_us": 120},
    "produce_200conn": {"rate": 50_000, "p99_ms": 10, "broker_cpu_us": 20},
    "batches_100b": {"mb_per_s": 110, "broker_cpu_us": 0.7},
    "batches_1kb": {"mb_per_s": 130, "broker_cpu_us": 6},
    "default_100b": {"rate": 2_400_000, "broker_cpu_us": 0.20},
    "default_1kb": {"mb_per_s": 410, "broker_cpu_us": 1.5},
    "e2e_1k": {"p50_ms": 0.40, "p99_ms": 2, "broker_cpu_us": 150},
    "e2e_10k": {"p50_ms": 1.5, "p99_ms": 6},
    "topics": {"thousand_topics_s": 0.3, "one_topic_ms": 3},
    "partitions_1000": {"cpu_growth": 1.3},
    "partitions_512": {"p99_ms": 10},
    "start": {"start_s": 0.25, "idle_rss_mb": 45, "idle_cpu_percent": 0.3},
    "one_partition_produce": {"mb_per_s": 50},
    "transactions": {"syncs": 3},
    "read_committed": {"committed_time": 1.05},
    "compaction": {"records_per_cpu_s": 1_000_000, "peak_rss_mb": 250, "p99_growth": 2},
    "memory": {"broker_rss_mb": 120},
    "memory_loaded": {"broker_rss_mb": 120},
    "with_10000_partitions": {"restart_s": 1},
    "recovery": {"recovery_s": 5},
    "http_produce_50conn": {"rate": 6_000, "p99_ms": 20},
    "http_produce_200conn": {"rate": 17_000},
    "http_ndjson": {"rate": 300_000},
    "http_consume": {"rate": 200_000},
    "http_consume_single": {"rate": 200_000},
    "http_memory": {"http_mb": 25},
    "http_idle": {"p99_growth": 1.1},
}
PAGE_CACHE: Goals = {
    "produce_1conn": {"rate": 11_000, "p50_ms": 0.09, "broker_cpu_us": 60},
    "produce_200conn": {"rate": 64_000, "p99_ms": 8, "broker_cpu_us": 18},
    "batches_100b": {"mb_per_s": 127, "broker_cpu_us": 0.5},
    "batches_1kb": {"mb_per_s": 200, "broker_cpu_us": 4},
    "default_100b": {"rate": 2_700_000, "broker_cpu_us": 0.14},
    "default_1kb": {"mb_per_s": 700, "broker_cpu_us": 1.0},
    "consume_100b": {"rate": 2_700_000, "broker_cpu_us": 0.07},
    "consume_1kb": {"mb_per_s": 1600, "broker_cpu_us": 0.3},
    "e2e_1k": {"p50_ms": 0.25, "p99_ms": 2},
    "e2e_10k": {"p50_ms": 1, "p99_ms": 5, "broker_cpu_us": 60},
    "start": {"start_s": 0.25, "idle_rss_mb": 45, "idle_cpu_percent": 0.3},
    "one_partition_consume": {"mb_per_s": 100},
    "memory": {"broker_rss_mb": 120},
}
CLUSTER: Goals = {
    "default_1kb": {"mb_per_s": 170, "broker_cpu_us": 9},
    "batches_1kb": {"mb_per_s": 35, "broker_cpu_us": 45},
    "produce_1conn": {"rate": 1_600, "p50_ms": 0.6, "broker_cpu_us": 300},
    "produce_200conn": {"rate": 15_000, "p99_ms": 40, "broker_cpu_us": 90},
    "e2e_1k": {"p50_ms": 1, "p99_ms": 6},
    "kill": {"gap_led_s": 3, "gap_others_s": 1},
    "kill_controller": {"gap_led_s": 3, "gap_others_s": 1},
    "clean_stop": {"gap_led_s": 0.5, "gap_others_s": 0.2},
    "start": {"idle_cpu_percent": 2},
    "memory": {"broker_rss_mb": 300},
    "topics": {"thousand_topics_s": 1},
}

QUEUE: Goals = {"queue_single_1": {"rate": 3_500}, "queue_batched_1": {"rate": 100_000}}


def goals_of(system: str, workload: str) -> dict[str, float]:
    goals = {"ottla": DURABLE, "ottla-os": PAGE_CACHE, "ottla-3": CLUSTER, "ottla-queue": QUEUE}.get(system, {})
    return goals.get(workload, {})


def is_reached(figure: str, value: float, bound: float) -> bool:
    return value >= bound if figure in AT_LEAST else value <= bound


def missed(system: str, workload: str, figures: dict[str, float]) -> list[str]:
    """Sentences on the goals that these figures miss."""
    sentences = []
    for figure, goal in goals_of(system, workload).items():
        value = figures.get(figure, 0.0)
        if not is_reached(figure, value, goal):
            sentences.append(f"{figure} {value:,.6g} (goal {'≥' if figure in AT_LEAST else '≤'} {goal:,g})")
    return sentences

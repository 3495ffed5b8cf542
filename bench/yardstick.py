"""The goals as shares of Kafka's figures, which do not depend on how fast a machine is.

A bound on a rate or on a time was set beside what Kafka did on the machine of that day. On a slower one Kafka misses
its own figure too, on a quicker one the bound is no longer worth much. Kafka's figure of that day says how far ahead
the bound was to be; Kafka's figure in the same run says how far ahead Ottla is.
"""

from bench.goals import goals_of

COUNTERPARTS = {"ottla": "kafka-durable", "ottla-os": "kafka", "ottla-3": "kafka-durable-3"}

Seen = dict[str, dict[str, tuple[float, ...]]]

_DURABLE: Seen = {
    "produce_1conn": {"rate": (2_900,), "p50_ms": (0.32,), "broker_cpu_us": (175,)},
    "produce_200conn": {"rate": (7_400,), "p99_ms": (36,), "broker_cpu_us": (165,)},
    "batches_100b": {"mb_per_s": (22,), "broker_cpu_us": (2.3,)},
    "batches_1kb": {"mb_per_s": (29,), "broker_cpu_us": (19,)},
    "default_100b": {"rate": (2_400_000,), "broker_cpu_us": (0.20,)},
    "default_1kb": {"mb_per_s": (300, 410), "broker_cpu_us": (1.5, 2.4)},
    "e2e_1k": {"p50_ms": (0.59,), "p99_ms": (4.9,), "broker_cpu_us": (335,)},
    "e2e_10k": {"p50_ms": (8,), "p99_ms": (200,)},
}
_PAGE_CACHE: Seen = {
    "produce_1conn": {"rate": (9_450,), "p50_ms": (0.10,), "broker_cpu_us": (77,)},
    "produce_200conn": {"rate": (63_600,), "p99_ms": (8,), "broker_cpu_us": (22,)},
    "batches_100b": {"mb_per_s": (104, 127), "broker_cpu_us": (0.62,)},
    "batches_1kb": {"mb_per_s": (125, 130), "broker_cpu_us": (6.5,)},
    "default_100b": {"rate": (2_000_000, 3_300_000), "broker_cpu_us": (0.14, 0.18)},
    "default_1kb": {"mb_per_s": (580, 850), "broker_cpu_us": (1.0, 1.5)},
    "consume_100b": {"rate": (2_700_000,), "broker_cpu_us": (0.07,)},
    "consume_1kb": {"mb_per_s": (1_400, 1_900), "broker_cpu_us": (0.3,)},
    "e2e_1k": {"p50_ms": (0.33,), "p99_ms": (1.3, 3.7)},
    "e2e_10k": {"p50_ms": (1.8,), "p99_ms": (6,), "broker_cpu_us": (89,)},
}
_CLUSTER: Seen = {
    "default_1kb": {"mb_per_s": (167, 181), "broker_cpu_us": (9.3,)},
    "batches_1kb": {"mb_per_s": (6, 9), "broker_cpu_us": (112, 218)},
    "produce_1conn": {"rate": (740, 795), "p50_ms": (1.2,), "broker_cpu_us": (1_150,)},
    "produce_200conn": {"rate": (3_800, 4_000), "p99_ms": (108, 119), "broker_cpu_us": (365,)},
    "e2e_1k": {"p50_ms": (3, 18), "p99_ms": (51, 146)},
}
SEEN = {"ottla": _DURABLE, "ottla-os": _PAGE_CACHE, "ottla-3": _CLUSTER}
"""What Kafka, with the same promise, did where the goals were set; the least and the most where it was not the same."""


def asked(system: str, workload: str, figure: str) -> float | None:
    """Which share of Kafka's figure the goal asks for; None where Kafka's of that day is not known."""
    seen = SEEN.get(system, {}).get(workload, {}).get(figure)
    return None if seen is None else goals_of(system, workload)[figure] / (sum(seen) / len(seen))

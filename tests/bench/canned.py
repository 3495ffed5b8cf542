"""Results as a run would leave them, with figures made up."""

from typing import Any

from bench.items import ITEM
from bench.native import Measured
from bench.plan import Run
from bench.results import as_item

MACHINE = {
    "cores": 2,
    "cpu": "Some CPU",
    "memory_gb": 25.0,
    "disk": "ext4 on /dev/vda",
    "kernel": "6.1",
    "python": "3.11.7",
    "java": "17",
    "commit": "abc1234",
}


def run(workload: str, system: str, *, repetition: int = 0, others: float = 0.1, **figures: Any) -> Run:
    return Run(workload=workload, system=system, repetition=repetition, figures=figures, others=others)


def request(rate: float, cpu_us: float, *, p99_ms: float = 5.0, client_share: float = 0.5) -> Measured:
    """What rawload prints."""
    return {
        "requests": int(rate * 2),
        "refused": 0,
        "first_error": 0,
        "seconds": 2.0,
        "rate": rate,
        "mb_per_s": rate * 50 / 1e6,
        "p50_ms": p99_ms / 2,
        "p95_ms": p99_ms / 1.5,
        "p99_ms": p99_ms,
        "p999_ms": p99_ms * 2,
        "broker_cpu_s": rate * 2 * cpu_us / 1e6,
        "broker_cpu_us": cpu_us,
        "broker_rss_mb": 50.0,
        "client_cpu_s": 2.0 * client_share,
    }


def item(name: str, runs: list[Run], *, complete: bool = True, form: str = "normal") -> dict[str, Any]:
    measured = as_item(runs, ITEM[name].plan(form), form=form, took_s=60, complete=complete)
    return {**measured, "machine": MACHINE, "measured_at": "2026-11-15 12:00 UTC"}

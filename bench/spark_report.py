"""What the Spark benchmark found, beside what the project wants to reach."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import apache_kafka, spark_connector
from bench.machine import busy_warning, machine

TITLES = {
    "read_100b": "batch read, 100 B, all columns hashed",
    "read_1kb": "batch read, 1 KB, all columns hashed",
    "read_lz4": "batch read, 100 B in 16 KiB batches, lz4",
    "read_zstd": "batch read, 100 B in 16 KiB batches, zstd",
    "parquet_100b": "AvailableNow, 100 B, into Parquet",
    "write_100b": "write 1 M rows of 100 B (ours exactly once, theirs at least once)",
    "micro": "micro-batch, a few rows of 6 partitions",
    "micro_sink": "the same, into another topic",
    "first": "first batch after a cold start",
}
_SHOWN = (
    ("rate", "{:,.0f} rows/s"),
    ("cpu_us", "{:.2f} µs CPU per row"),
    ("p50_ms", "p50 {:.0f} ms"),
    ("first_s", "{:.1f} s"),
    ("cpu_s", "{:.1f} s CPU"),
)
_AT_LEAST = frozenset({"rate"})
GOALS = {
    "read_100b": {"rate": 1_900_000},
    "read_1kb": {"rate": 500_000},
    "parquet_100b": {"rate": 900_000},
    "write_100b": {"rate": 600_000},
    "micro": {"p50_ms": 160},
    "micro_sink": {"p50_ms": 300},
    "first": {"first_s": 10},
}
AHEAD = ("read_lz4", "read_zstd")
"""Here the goal is to be faster than Spark's connector, tuned or not."""

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    workload: str
    system: str
    repetition: int
    figures: Figures
    others: float
    """How many cores were at work for others just before it began."""


def line(figures: Figures) -> str:
    if "error" in figures:
        return f"failed: {str(figures['error']).splitlines()[0]}"
    return ", ".join(form.format(figures[name]) for name, form in _SHOWN if name in figures)


def medians(runs: Sequence[Run]) -> dict[str, dict[str, Figures]]:
    """workload → system → figure → median over the repetitions; a failed repetition is shown as such."""
    grouped: dict[str, dict[str, list[Figures]]] = {}
    for run in runs:
        grouped.setdefault(run.workload, {}).setdefault(run.system, []).append(run.figures)
    return {
        workload: {system: _median(several) for system, several in systems.items()}
        for workload, systems in grouped.items()
    }


def _median(several: Sequence[Figures]) -> Figures:
    for figures in several:
        if "error" in figures:
            return figures
    return {name: statistics.median(figures[name] for figures in several) for name in several[0]}


def table(runs: Sequence[Run]) -> str:
    """A column per system, how many times Spark's connector that is, and whether the goal is met."""
    summary = medians(runs)
    systems = list(dict.fromkeys(run.system for run in runs))
    lines = ["| Work | " + " | ".join(systems) + " | ratio | goal |", "|---" * (len(systems) + 3) + "|"]
    for workload, found in summary.items():
        cells = [line(found[system]) if system in found else "" for system in systems]
        lines.append(f"| {TITLES[workload]} | {' | '.join(cells)} | {_ratio(found)} | {_judged(workload, found)} |")
    return "\n".join([*lines, *busy_warning([run.others for run in runs])])


def _main_figure(figures: Figures) -> str | None:
    return next((name for name in ("rate", "p50_ms", "first_s") if name in figures), None)


def _ratio(found: dict[str, Figures]) -> str:
    """How many times as fast ours is, than the better of the others."""
    ours = found.get("ottla", {})
    figure = _main_figure(ours)
    others = [figures[figure] for system, figures in found.items() if system != "ottla" and figure in figures]
    if figure is None or not others:
        return ""
    factor = ours[figure] / max(others) if figure in _AT_LEAST else min(others) / ours[figure]
    return f"{factor:.2f}"


def _judged(workload: str, found: dict[str, Figures]) -> str:
    ours = found.get("ottla", {})
    if "error" in ours or not ours:
        return ""
    if workload in AHEAD:
        ratio = _ratio(found)
        return "" if not ratio else f"ahead: {'met' if float(ratio) > 1 else 'MISSED'}"
    return "; ".join(
        f"{'≥' if name in _AT_LEAST else '≤'} {goal:,.10g}: {'met' if _meets(name, ours[name], goal) else 'MISSED'}"
        for name, goal in GOALS[workload].items()
    )


def _meets(name: str, value: float, goal: float) -> bool:
    return value >= goal if name in _AT_LEAST else value <= goal


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "machine": machine(),
        "kafka_version": apache_kafka.VERSION,
        "connector_version": spark_connector.VERSION,
        "goals": GOALS,
        "median": medians(runs),
        "runs": [
            {"workload": run.workload, "system": run.system, "repetition": run.repetition, "others": run.others}
            | run.figures
            for run in runs
        ],
    }

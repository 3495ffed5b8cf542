"""Tells what was measured: a table for people, JSON for programs."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench import apache_kafka
from bench.goals import missed
from bench.machine import busy_warning, machine
from bench.native import Measured
from bench.plan import Run
from bench.ratios import ratio
from bench.workloads import BY_NAME

_SHOWN = (
    ("rate", "{:,.0f}/s"),
    ("mb_per_s", "{:,.4g} MB/s"),
    ("p50_ms", "p50 {:.2f} ms"),
    ("p99_ms", "p99 {:.2f} ms"),
    ("broker_cpu_us", "{:.3g} µs"),
    ("broker_cpu_us_uncommitted", "{:.3g} µs for all records"),
    ("committed_time", "{:.2f} times as long as all records"),
    ("syncs", "{:.1f} syncs"),
    ("cpu_growth", "CPU grows {:.2f} times"),
    ("start_s", "{:.2f} s"),
    ("start_cpu_s", "{:.2f} s CPU"),
    ("idle_rss_mb", "{:.0f} MB"),
    ("idle_cpu_percent", "{:.1f} % idle"),
    ("one_topic_ms", "{:.1f} ms"),
    ("thousand_topics_s", "{:.2f} s"),
    ("compact_s", "{:.1f} s"),
    ("compact_cpu_s", "{:.1f} s CPU"),
    ("records_per_cpu_s", "{:,.0f} records per CPU second"),
    ("peak_rss_mb", "{:.0f} MB"),
    ("p99_quiet_ms", "p99 of a produce {:.2f} ms before"),
    ("p99_compacting_ms", "{:.2f} ms meanwhile"),
    ("p99_without_ms", "{:.2f} ms before it was loaded"),
    ("http_hot_mb", "{:.1f} MB for HTTP without the framework"),
    ("http_mb", "{:.1f} MB with it"),
    ("created_s", "created in {:.2f} s"),
    ("partitions_rss_mb", "{:.0f} MB"),
    ("stop_s", "stopped in {:.2f} s"),
    ("recovery_s", "back {:.2f} s after kill -9"),
    ("recovery_cpu_s", "{:.2f} s CPU"),
    ("data_gb", "{:.3g} GB"),
    ("restart_s", "back {:.2f} s after a stop"),
    ("restart_killed_s", "{:.2f} s after kill -9"),
    ("join_s", "joined in {:.2f} s"),
    ("leave_s", "left in {:.2f} s"),
    ("crash_s", "missed in {:.2f} s"),
    ("join_cpu_ms", "{:.0f} ms CPU"),
    ("cpu_us", "{:.3g} µs"),
    ("samples", "{:,.0f} samples"),
    ("gap_led_s", "{:.2f} s"),
    ("gap_others_s", "others {:.2f} s"),
)
_SPREAD_SHOWN = frozenset({"rate", "broker_cpu_us", "start_s"})
_COUNTERPARTS = (
    ("ottla", "kafka-durable"),
    ("ottla-os", "kafka"),
    ("ottla", "kafka"),
    ("ottla-2", "kafka"),
    ("ottla-3", "kafka-durable-3"),
    ("ottla-3", "kafka-3"),
)


def tell(done: Run) -> None:
    """A run that has just ended."""
    again = f", {done.tries} tries, {done.stolen:.1%} stolen" if done.tries > 1 else ""
    print(f"{done.workload:24} {done.system:14} {line(done.figures)}{again}", file=sys.stderr, flush=True)


def line(measured: Measured) -> str:
    """One cell: the figures of one run, or the medians of several with the smallest and the largest."""
    if "error" in measured:
        return f"failed: {(str(measured['error']).splitlines() or ['without a word'])[0]}"
    shown = [*_SHOWN, ("broker_rss_mb", "{:.0f} MB")] if "broker_cpu_us" not in measured else _SHOWN
    parts = [_with_spread(measured, name, form) for name, form in shown if name in measured]
    if measured.get("refused"):
        parts.append(f"{measured['refused']} refused (error {measured['first_error']})")
    return ", ".join(parts)


def _with_spread(measured: Measured, name: str, form: str) -> str:
    text = form.format(measured[name])
    return text + spread(measured, name) if name in _SPREAD_SHOWN else text


def spread(measured: Measured, name: str) -> str:
    """The smallest and the largest of the repetitions, if there are several."""
    each = measured.get("each", {}).get(name, {}).values()
    return f" [{short(min(each))}-{short(max(each))}]" if len(each) > 1 else ""


def short(value: float) -> str:
    """Three digits or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def medians(runs: Sequence[Run]) -> dict[str, dict[str, Measured]]:
    """workload → system → figure → median over the repetitions, with `each` of them by its number; a failed one is
    shown as such.
    """
    grouped: dict[str, dict[str, dict[int, Measured]]] = {}
    for run in runs:
        grouped.setdefault(run.workload, {}).setdefault(run.system, {})[run.repetition] = run.figures
    return {
        workload: {system: _median(several) for system, several in systems.items()}
        for workload, systems in grouped.items()
    }


def _median(several: Mapping[int, Measured]) -> Measured:
    for figures in several.values():
        if "error" in figures:
            return figures
    names = next(iter(several.values()))
    each = {name: {repetition: figures[name] for repetition, figures in several.items()} for name in names}
    return {**{name: statistics.median(values.values()) for name, values in each.items()}, "each": each}


def table(runs: Sequence[Run]) -> str:
    """A Markdown table with a column per system, then the ratios and the goals that were missed."""
    summary = medians(runs)
    systems = list(dict.fromkeys(run.system for run in runs))
    lines = ["| Work | " + " | ".join(systems) + " |", "|---" * (len(systems) + 1) + "|"]
    for workload, figures in summary.items():
        cells = [line(figures[system]) if system in figures else "" for system in systems]
        lines.append(f"| {BY_NAME[workload].title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *_ratios(summary), *_missed_goals(summary), *busy_warning([run.others for run in runs])])


def _ratios(summary: dict[str, dict[str, Measured]]) -> list[str]:
    lines = []
    for ours, theirs in _COUNTERPARTS:
        rows = [
            f"| {BY_NAME[workload].title} | {_ratios_of(systems[ours], systems[theirs])} |"
            for workload, systems in summary.items()
            if ours in systems and theirs in systems and "broker_cpu_us" in systems[ours]
        ]
        if rows:
            lines += ["", f"| {ours} / {theirs} | rate | CPU per message | p99 |", "|---|---|---|---|", *rows]
    return lines


def _ratios_of(ours: Measured, theirs: Measured) -> str:
    several = [ratio(ours, theirs, figure) for figure in ("rate", "broker_cpu_us", "p99_ms")]
    return " | ".join(str(one) if one else "" for one in several)


def _missed_goals(summary: dict[str, dict[str, Measured]]) -> list[str]:
    lines = [
        f"- {system}, {workload}: {'; '.join(sentences)}"
        for workload, systems in summary.items()
        for system, figures in systems.items()
        if (sentences := missed(system, workload, figures))
    ]
    return ["", "Goals missed:", *lines] if lines else []


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "machine": machine(),
        "kafka_version": apache_kafka.VERSION,
        "median": medians(runs),
        "runs": [
            {
                "workload": run.workload,
                "system": run.system,
                "repetition": run.repetition,
                "others": run.others,
                **run.figures,
            }
            for run in runs
        ],
    }

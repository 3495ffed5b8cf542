"""Which goals the results reach: bounds on single figures, Ottla beside Kafka row by row, and how cost grows.

A goal whose figures are not there is told as not measured, never as reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench import headline
from bench.goals import AT_LEAST, goals_of, is_reached
from bench.items import title_of
from bench.native import Measured
from bench.ratios import Ratio, ratio
from bench.report import short
from bench.yardstick import COUNTERPARTS, asked

Summary = Mapping[str, Mapping[str, Measured]]
"""workload → system → figure → median."""

REACHED, MISSED, UNKNOWN = "reached", "missed", "not measured"
_OURS = ("ottla", "ottla-os", "ottla-3", "ottla-queue")
_JUDGED_ELSEWHERE = frozenset({"cores", "headline"})
"""Items whose rows are those of others, for a comparison: a bound is not counted twice."""
_TIMES = {
    "p50_ms": "p50 end to end and of requests",
    "p99_ms": "p99 end to end and of requests",
    "gap_led_s": "the gap of what a lost node led",
    "gap_others_s": "the gap of the rest",
}
_TOLD = {
    "rate": ("rate", "/s"),
    "mb_per_s": ("rate", " MB/s"),
    "p50_ms": ("p50", " ms"),
    "p99_ms": ("p99", " ms"),
    "broker_cpu_us": ("CPU", " µs"),
    "broker_rss_mb": ("memory", " MB"),
    "idle_rss_mb": ("memory when idle", " MB"),
    "idle_cpu_percent": ("CPU when idle", " %"),
    "start_s": ("start", " s"),
    "restart_s": ("back after a stop", " s"),
    "recovery_s": ("back after kill -9", " s"),
    "one_topic_ms": ("one topic", " ms"),
    "thousand_topics_s": ("1,000 topics", " s"),
    "gap_led_s": ("gap of what it led", " s"),
    "gap_others_s": ("gap of the rest", " s"),
}
"""How a figure is called on the page, and its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    goal: str
    measured: str
    outcome: str
    beside: str = ""
    """The same as a share of Kafka's figure: which was asked for, and which it is."""
    outcome_beside: str = UNKNOWN


def bounds(summary: Summary) -> list[Verdict]:
    """The goals that are a bound on one figure."""
    return [
        _bound(system, workload, figure, goal, systems)
        for workload, systems in summary.items()
        for system in _OURS
        if system in systems
        for figure, goal in goals_of(system, workload).items()
    ]


def _bound(system: str, workload: str, figure: str, goal: float, systems: Mapping[str, Measured]) -> Verdict:
    figures = systems[system]
    name, unit = _TOLD.get(figure, (figure, ""))
    told = f"{system}: {title_of(workload)}: {name} {'≥' if figure in AT_LEAST else '≤'} {goal:,g}{unit}"
    if figure not in figures:
        return Verdict(goal=told, measured=str(figures.get("error", "")), outcome=UNKNOWN)
    value = float(figures[figure])
    beside, outcome_beside = "", UNKNOWN
    wanted = asked(system, workload, figure)
    of = ratio(figures, systems.get(COUNTERPARTS.get(system, ""), {}), figure)
    if wanted is not None and of is not None:
        share = of.middle
        beside = f"{_share(share)} (asked {_share(wanted)})"
        outcome_beside = _outcome(figure, share, wanted)
    return Verdict(
        goal=told,
        measured=f"{short(value)}{unit}",
        outcome=_outcome(figure, value, goal),
        beside=beside,
        outcome_beside=outcome_beside,
    )


def _outcome(figure: str, value: float, bound: float) -> str:
    return REACHED if is_reached(figure, value, bound) else MISSED


def _share(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def ahead(
    goal: str, summary: Summary, ours: str, theirs: str, *, figure: str, rows: Sequence[str] | None = None
) -> Verdict:
    """Ottla is ahead of Kafka in a figure, in every row where both have it; `rows` must all be there."""
    behind, seen = [], list[Ratio]()
    more_is_better = figure in AT_LEAST
    for workload in rows if rows is not None else summary:
        systems = summary.get(workload, {})
        of = ratio(systems.get(ours, {}), systems.get(theirs, {}), figure)
        if of is None:
            if rows is not None:
                return Verdict(goal=goal, measured=f"{title_of(workload)} is missing", outcome=UNKNOWN)
            continue
        seen.append(of)
        if not is_ahead(of.middle, more_is_better=more_is_better):
            behind.append(f"{title_of(workload)} ({of.middle:.2f})")
    if not seen:
        return Verdict(goal=goal, measured="", outcome=UNKNOWN)
    told = _rows(seen, len(behind), more_is_better=more_is_better)
    if behind:
        told += f"; not in: {'; '.join(behind)}"
    return Verdict(goal=goal, measured=told, outcome=MISSED if behind else REACHED)


def is_ahead(share: float, *, more_is_better: bool) -> bool:
    return share > 1 if more_is_better else share < 1


def _rows(seen: Sequence[Ratio], behind: int, *, more_is_better: bool) -> str:
    """How many rows are ahead, how many of them whichever way one looks, and how far."""
    worse = [of.quarters[0] if more_is_better else of.quarters[1] for of in seen]
    clearly = sum(is_ahead(share, more_is_better=more_is_better) for share in worse)
    low, high = (_share(by([of.middle for of in seen])) for by in (min, max))
    reach = f"{low} to {high}" if low != high else low
    return f"{len(seen) - behind} of {len(seen)} rows, {clearly} clearly; {reach} times Kafka's figure"


def grows(goal: str, summary: Summary, few: str, many: str, at_most: float) -> Verdict:
    """Ottla's CPU per request of one workload as a multiple of another's."""
    little, much = (summary.get(workload, {}).get("ottla", {}) for workload in (few, many))
    of = ratio(much, little, "broker_cpu_us")
    if of is None:
        return Verdict(goal=goal, measured="", outcome=UNKNOWN)
    return Verdict(goal=goal, measured=f"{of.middle:.2f} times", outcome=REACHED if of.middle <= at_most else MISSED)


def verdicts(items: Mapping[str, Summary]) -> list[Verdict]:
    """All of them, the comparisons first."""
    judged = (summary for name, summary in items.items() if name not in _JUDGED_ELSEWHERE)
    return [*comparisons(items), *(verdict for summary in judged for verdict in bounds(summary))]


def comparisons(items: Mapping[str, Summary]) -> list[Verdict]:
    """Ottla beside Kafka, and much beside little."""
    return [*_compared(items), *_flat(items)]


def _compared(items: Mapping[str, Summary]) -> list[Verdict]:
    of = {name: items.get(name, {}) for name in ("throughput", "java", "requests", "latency", "cluster")}
    writing = {**of["throughput"], **of["java"], **of["requests"]}
    return [
        ahead(
            "Durable, ahead of Kafka in rate: throughput, the Java client and requests",
            writing,
            "ottla",
            "kafka-durable",
            figure="rate",
        ),
        *(
            ahead(f"Durable, ahead in {figure[:3]} end to end", of["latency"], "ottla", "kafka-durable", figure=figure)
            for figure in ("p50_ms", "p99_ms")
        ),
        ahead(
            "Three nodes, durable, ahead in rate", _rated(of["cluster"]), "ottla-3", "kafka-durable-3", figure="rate"
        ),
        *(
            ahead(f"Three nodes, durable, ahead in {told}", of["cluster"], "ottla-3", "kafka-durable-3", figure=figure)
            for figure, told in _TIMES.items()
        ),
        ahead(
            "Page cache, less CPU per message than Kafka in every row",
            {**writing, **of["latency"]},
            "ottla-os",
            "kafka",
            figure="broker_cpu_us",
        ),
        ahead(
            "Durable Ottla ahead of Kafka in the page cache: 50 and more producers, 16 KiB batches",
            {**writing, **items.get("headline", {})},
            "ottla",
            "kafka",
            figure="rate",
            rows=headline.NAMES,
        ),
    ]


def _rated(summary: Summary) -> Summary:
    """Without the rows in which the rate is given."""
    return {workload: systems for workload, systems in summary.items() if not workload.startswith("e2e")}


def _flat(items: Mapping[str, Summary]) -> list[Verdict]:
    growth = items.get("growth", {})
    return [
        grows(
            "CPU per request with 10,000 partitions ≤ 1.5 times that with 6",
            growth,
            "growth_partitions_6",
            "growth_partitions_10000",
            1.5,
        ),
        grows(
            "CPU per request with 1,000 partitions ≤ 1.3 times that with 6",
            growth,
            "growth_partitions_6",
            "growth_partitions_1000",
            1.3,
        ),
        grows(
            "CPU per request with 2,000 connections ≤ 1.5 times that with 10",
            growth,
            "growth_connections_10",
            "growth_connections_2000",
            1.5,
        ),
    ]

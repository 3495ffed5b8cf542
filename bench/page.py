"""The page of results, `docs/benchmarks/README.md`: made from the results alone, so that it can't say anything else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import results
from bench.again import STOLEN_SHARE_MAX
from bench.flames import TITLES as FLAMES
from bench.goals import AT_LEAST
from bench.items import FULL, ITEM, ITEMS, NORMAL, SHORT, estimate_s, title_of
from bench.native import Measured
from bench.pictures import draw
from bench.plots import LABELS, Summary, cpu_per_mb, systems_in
from bench.ratios import Ratio, ratio
from bench.report import line, short, spread
from bench.verdicts import MISSED, REACHED, UNKNOWN, Verdict, comparisons, is_ahead, verdicts

_HEAD = """\
# Results of the benchmarks

Ottla beside Apache Kafka on one machine: the same clients, the same settings, runs that take turns. Cells hold the
median of the repetitions and, in brackets, the smallest and the largest. CPU is the broker's, per message unless it
says otherwise: the figure to steer by, since it stays put on a noisy machine. "Durable" is Ottla's default and Kafka
with `log.flush.interval.messages=1`: an acknowledged record is on disk. "Page cache" is Kafka's default and Ottla's
`durability: os`. [How it is measured](../BENCHMARKS.md).

This page and its pictures are made from `results.json` by `python -m bench page`. Each item is measured on its own
(`make bench ITEM=…`), and tells when, at which commit, and how many cores others took of the machine.
"""
_BESIDE = """\
Bounds on rates, times and CPU were set beside what Kafka did on the machine of that day, which was quicker or slower
than this one. The share says the same without the machine: Ottla's figure in Kafka's of the same run and promise, and
what the bound was in Kafka's of that day (the middle, where that was a range).
"""
_COMPARING = """; those that compare follow.
A row is ahead by the ratio in the middle of its repetitions, and clearly ahead if the less favourable quarter of them
is as well (of three repetitions: each). Rows that are ahead, but not clearly, are level: another hour may turn them.
"""
_FIGURES: dict[str, tuple[tuple[str, str], ...]] = {
    "headline": (("rate", "{}/s"), ("broker_cpu_us", "{} µs")),
    "throughput": (("mb_per_s", "{} MB/s"), ("broker_cpu_us", "{} µs")),
    "java": (("mb_per_s", "{} MB/s"), ("mean_ms", "mean {} ms"), ("broker_cpu_us", "{} µs")),
    "requests": (("rate", "{}/s"), ("p50_ms", "p50 {} ms"), ("p99_ms", "p99 {} ms"), ("broker_cpu_us", "{} µs")),
    "cores": (("rate", "{}/s"), ("broker_cpu_us", "{} µs")),
    "latency": (
        ("p50_ms", "p50 {}"),
        ("p95_ms", "p95 {}"),
        ("p99_ms", "p99 {}"),
        ("p999_ms", "p99.9 {} ms"),
        ("broker_cpu_us", "{} µs"),
    ),
    "growth": (("broker_cpu_us", "{} µs a request"), ("cpu_ms_per_mb", "{} ms a MB"), ("rate", "{}/s")),
    "queue": (("rate", "{}/s"), ("cpu_us", "{} µs")),
}
_COMPARED = {
    "headline": ("rate", "broker_cpu_us"),
    "throughput": ("mb_per_s", "broker_cpu_us"),
    "java": ("mb_per_s", "mean_ms", "broker_cpu_us"),
    "requests": ("rate", "p99_ms", "broker_cpu_us"),
    "cores": ("rate", "broker_cpu_us"),
    "latency": ("p50_ms", "p99_ms", "broker_cpu_us"),
    "growth": ("broker_cpu_us",),
}
_PAIRS = (("ottla", "kafka-durable"), ("ottla-os", "kafka"), ("ottla", "kafka"), ("ottla-2", "kafka"))
_MANY_PAIRS = {"headline"}
"""Repeated so often that the spread of a ratio can be told."""
_WITHOUT_KAFKA = {"queue", "flame"}
_LIMIT = "†"
_ONE_CORE, _ALL_CORES = 0.95, 0.9


def write_page(directory: Path | None = None) -> None:
    """Brings page and pictures up to date with the results in a directory, by default the committed ones."""
    directory = directory or results.DIRECTORY
    measured = results.load(directory / "results.json")
    text = page(measured, directory)
    (directory / "README.md").write_text(text)


def page(measured: results.Results, directory: Path) -> str:
    """The text; the pictures are drawn into the directory."""
    items = {item.name: _usable(results.summary(measured[item.name])) for item in ITEMS if item.name in measured}
    judged = verdicts(items)
    parts = [_HEAD, _machines(measured), _in_short(judged, comparisons(items))]
    for item in ITEMS:
        if item.name in items:
            parts.append(_section(item.name, measured[item.name], items, directory))
    missing = [item for item in ITEMS if item.name not in items]
    if missing:
        parts.append(
            "Not measured yet: " + ", ".join(item.title[0].lower() + item.title[1:] for item in missing) + ".\n"
        )
    return "\n".join([*parts, _goals(judged), _durations()])


def _usable(summary: Summary) -> Summary:
    return {
        workload: {system: _with_cost(figures) for system, figures in systems.items()}
        for workload, systems in summary.items()
    }


def _with_cost(figures: Measured) -> Measured:
    per_mb = None if "error" in figures or "broker_cpu_us" not in figures else cpu_per_mb(figures)
    return figures if per_mb is None else {**figures, "cpu_ms_per_mb": per_mb}


# The head


def _machines(measured: results.Results) -> str:
    seen = {_machine(item["machine"]) for item in measured.values()}
    versions = sorted({str(item["kafka_version"]) for item in measured.values() if item["kafka_version"]})
    lines = ["## The machine", "", *(f"- {one}" for one in sorted(seen)), ""]
    if len(seen) > 1:
        lines += ["Each item says on which it was measured: compare within an item, not between them.", ""]
    if versions:
        lines += [f"Apache Kafka {', '.join(versions)}.", ""]
    elif not set(measured) <= _WITHOUT_KAFKA:
        lines += ["Apache Kafka was not there: Ottla alone.", ""]
    return "\n".join(lines)


def _machine(of: Mapping[str, Any]) -> str:
    java = f", Java {of['java']}" if of.get("java") else ""
    disk = f", {of['disk']}" if of.get("disk") else ""
    return (
        f"{of['cores']} cores ({of['cpu']}), {of['memory_gb']} GB{disk}, Linux {of['kernel']}, "
        f"Python {of['python']}{java}"
    )


def _in_short(judged: Sequence[Verdict], compared: Sequence[Verdict]) -> str:
    counts = {outcome: sum(one.outcome == outcome for one in judged) for outcome in (REACHED, MISSED, UNKNOWN)}
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    rows = [f"- {one.goal}: {one.measured}. {one.outcome.capitalize()}." for one in compared if one.outcome != UNKNOWN]
    head = f"Of {len(judged)} goals: {told}.{_in_shares(judged)} They are [at the end](#goals)"
    head += _COMPARING if rows else "."
    return "\n".join(["## In short", "", head, "", *rows, ""])


def _in_shares(judged: Sequence[Verdict]) -> str:
    outcomes = [one.outcome_beside for one in judged if one.beside]
    if not outcomes:
        return ""
    reached = outcomes.count(REACHED)
    return (
        f" {len(outcomes)} of them are bounds that can be told as a share of Kafka's figure, whatever the machine: "
        f"{reached} reached, {len(outcomes) - reached} missed."
    )


# An item


def _section(name: str, measured: dict[str, Any], items: Mapping[str, Summary], directory: Path) -> str:
    item, summary = ITEM[name], items[name]
    parts = [f"## {item.title}", "", item.about, "", _when(measured), ""]
    if name == "flame":
        parts += [*_flame_rows(summary, items, directory), ""]
        return "\n".join(parts)
    parts += [*_table(name, summary, measured["machine"]["cores"]), ""]
    parts += _ratio_table(name, summary)
    for file, title in draw(name, items, directory):
        parts += [f"![{title}]({file})", ""]
    return "\n".join(parts)


def _when(measured: dict[str, Any]) -> str:
    runs = f"{measured['repetitions']} repetition{'s' if measured['repetitions'] > 1 else ''}{_beyond(measured)}"
    on = measured["machine"]
    parts = [f"Measured {measured['measured_at']} at {on['commit']} on {on['cpu']}", f"{measured['form']} form", runs]
    parts.append(f"Ottla {on.get('ottla', 'pure Python')}")
    if measured["seconds"]:
        parts.append(f"windows of {measured['seconds']:g} s")
    others = measured["others"]
    parts.append("what else ran is not known" if others is None else f"{others:g} cores taken by other work")
    told = ", ".join(parts) + "." + _disturbance(measured)
    if results.was_busy(measured):
        told += " **The machine was busy with other work: rates and latencies are hints only.**"
    if not measured["complete"]:
        told += " **It was interrupted: not all repetitions are there.**"
    return told


def _beyond(measured: dict[str, Any]) -> str:
    """Rows that were measured more often."""
    most = max(run["repetition"] for run in measured["runs"]) + 1
    rows = {run["workload"] for run in measured["runs"] if run["repetition"] >= measured["repetitions"]}
    return f" (up to {most} of {len(rows)} rows that those did not decide)" if rows else ""


def _disturbance(measured: dict[str, Any]) -> str:
    """What the host took, where that was looked at."""
    if "stolen" not in measured:
        return ""
    again = sum(run.get("tries", 1) > 1 for run in measured["runs"])
    disturbed = sum(run.get("stolen", 0) > STOLEN_SHARE_MAX for run in measured["runs"])
    told = f" The host took {measured['stolen'] * 100:.1f} % of the cores"
    if again:
        told += f"; {again} of {len(measured['runs'])} runs were made again for that, and {disturbed} stayed disturbed"
    return told + "."


def _table(name: str, summary: Summary, cores: int) -> list[str]:
    systems = systems_in(summary)
    rows = [f"| | {' | '.join(LABELS[system] for system in systems)} |", "|---" * (len(systems) + 1) + "|"]
    limited = False
    for workload, of in summary.items():
        cells = []
        for system in systems:
            mark = _LIMIT if system in of and client_is_limit(of[system], cores) else ""
            limited = limited or bool(mark)
            cells.append(_cell(name, of[system]) + mark if system in of else "")
        rows.append(f"| {title_of(workload)} | {' | '.join(cells)} |")
    if limited:
        rows += ["", f"{_LIMIT} The client used more of the machine than the broker: the rate is the client's limit."]
    return rows


def _cell(name: str, figures: Measured) -> str:
    if "error" in figures or name not in _FIGURES:
        return line(figures)
    return ", ".join(_shown(figures, *one) for one in _FIGURES[name] if one[0] in figures)


def _shown(figures: Measured, figure: str, form: str) -> str:
    told = form.format(short(figures[figure]))
    return told if figure in ("p50_ms", "p95_ms") else told + spread(figures, figure)


def client_is_limit(figures: Measured, cores: int) -> bool:
    """The raw driver has one thread, librdkafka several: then the machine is full and the client has most of it."""
    is_at_fixed_rate = "p50_ms" in figures and "requests" not in figures
    if is_at_fixed_rate or not figures.get("seconds") or "client_cpu_s" not in figures:
        return False
    client, broker = (float(figures[name]) / float(figures["seconds"]) for name in ("client_cpu_s", "broker_cpu_s"))
    if "requests" in figures:
        return client >= _ONE_CORE
    return client > broker and client + broker >= _ALL_CORES * cores


def _ratio_table(name: str, summary: Summary) -> list[str]:
    figures = _COMPARED.get(name, ())
    pairs = [pair for pair in _PAIRS if figures and any(set(pair) <= set(systems) for systems in summary.values())]
    if not pairs:
        return []
    whole = name in _MANY_PAIRS
    heads = [f"{LABELS[ours]} / {LABELS[theirs]}" for ours, theirs in pairs]
    told = ", ".join(_UNITS[figure] for figure in figures)
    rows = [f"As ratios ({told}; **bold** where Ottla is behind):", ""]
    rows += [f"| | {' | '.join(heads)} |", "|---" * (len(pairs) + 1) + "|"]
    for workload, systems in summary.items():
        cells = [("; " if whole else ", ").join(_ratios(systems, pair, figures, whole=whole)) for pair in pairs]
        rows.append(f"| {title_of(workload)} | {' | '.join(cells)} |")
    return [*rows, ""]


_UNITS = {
    "mb_per_s": "rate",
    "rate": "rate",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "mean_ms": "mean",
    "broker_cpu_us": "CPU",
}


def _ratios(
    systems: Mapping[str, Measured], pair: tuple[str, str], figures: Sequence[str], *, whole: bool
) -> list[str]:
    ours, theirs = (systems.get(system, {}) for system in pair)
    told = []
    for figure in figures:
        of = ratio(ours, theirs, figure)
        if of is not None:
            is_behind = of.middle != 1 and not is_ahead(of.middle, more_is_better=figure in AT_LEAST)
            told.append(_ratio(of, is_behind=is_behind, whole=whole))
    return told


def _ratio(of: Ratio, *, is_behind: bool, whole: bool) -> str:
    low, high = of.quarters
    told = f"**{of.middle:.2f}**" if is_behind else f"{of.middle:.2f}"
    return f"{told} [{low:.2f}-{high:.2f}], above 1 in {of.above_1} of {of.pairs}" if whole else told


def _flame_rows(summary: Summary, items: Mapping[str, Summary], directory: Path) -> list[str]:
    rows = [f"- [{title}]({file})" for file, title in draw("flame", items, directory)]
    failed = [
        f"- {FLAMES[name]}: {line(of['ottla'])}" for name, of in summary.items() if "error" in of.get("ottla", {})
    ]
    return [*rows, *failed]


# The end


def _goals(judged: Sequence[Verdict]) -> str:
    rows = ["## Goals", "", _BESIDE, "| Goal | Measured | | Share of Kafka's | |", "|---|---|---|---|---|"]
    for outcome in (MISSED, UNKNOWN, REACHED):
        rows += [_goal(one) for one in judged if one.outcome == outcome]
    return "\n".join([*rows, ""])


def _goal(one: Verdict) -> str:
    beside = (one.beside, _mark(one.outcome_beside)) if one.beside else ("", "")
    return f"| {' | '.join((one.goal, one.measured, _mark(one.outcome), *beside))} |"


def _mark(outcome: str) -> str:
    return f"**{outcome}**" if outcome == MISSED else outcome


def _durations() -> str:
    rows = ["## How long it takes", "", f"| Item | {SHORT} | {NORMAL} | {FULL} |", "|---|---|---|---|"]
    for item in ITEMS:
        times = [f"{estimate_s(item.plan(form)) / 60:.0f} min" for form in (SHORT, NORMAL, FULL)]
        rows.append(f"| `{item.name}` | {' | '.join(times)} |")
    rows += ["", "With Kafka's warm-up where an item runs alone. `full` has every combination of the settings of"]
    rows += ["[Throughput](#throughput); the other two have the base case, one factor varied at a time, and corners."]
    return "\n".join([*rows, ""])

"""The pictures of the page: small SVG files that are readable on a light and on a dark background.

No background, text and lines in a grey that stands out from both, one colour for each broker; what is durable is solid,
what is left to the page cache is pale or dashed. The files come out the same for the same results.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from bench.items import title_of
from bench.native import Measured
from bench.ratios import Ratio

mpl.use("svg")

Summary = Mapping[str, Mapping[str, Measured]]
Value = Callable[[Measured], float | None]

LABELS = {
    "ottla": "Ottla, durable",
    "ottla-2": "Ottla, durable, two nodes",
    "kafka-durable": "Kafka, durable",
    "ottla-os": "Ottla, page cache",
    "kafka": "Kafka, page cache",
    "ottla-3": "Ottla, durable",
    "kafka-durable-3": "Kafka, durable",
    "kafka-3": "Kafka, page cache",
    "ottla-queue": "Ottla",
    "sqlite": "SQLite",
    "persist-queue": "persist-queue",
}
_INK = "#768390"
_OTTLA, _KAFKA, _THIRD = "#2f81f7", "#e0702c", "#8a63d2"
_COLOURS = {"sqlite": _KAFKA, "persist-queue": _THIRD, "ottla-2": _THIRD}
_PALE = frozenset({"ottla-os", "kafka", "kafka-3"})
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ottla",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


@contextmanager
def picture(path: Path, *, width: float, height: float, panels: int = 1) -> Iterator[list[Axes]]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        yield list(axes)
        _legend(figure, axes)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    path.write_text(re.sub(r"[ \t]+$", "", path.read_text(), flags=re.MULTILINE))


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for all panels, above them."""
    shown: dict[str, Artist] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    if shown:
        figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=_columns(figure, len(shown)))


def _columns(figure: Figure, entries: int) -> int:
    return entries if figure.get_figwidth() > 7 or entries < 4 else 2  # inches


def _colour(system: str) -> str:
    return _COLOURS.get(system, _OTTLA if system.startswith("ottla") else _KAFKA)


def systems_in(summary: Summary) -> list[str]:
    there = {system for systems in summary.values() for system in systems}
    return [system for system in LABELS if system in there]


def bars(axes: Axes, summary: Summary, workloads: Sequence[str], value: Value, *, labels: Sequence[str] = ()) -> None:
    """A group of bars from left to right for each workload, the first one on top."""
    systems = systems_in(summary)
    thickness = 0.8 / max(len(systems), 1)
    for at, system in enumerate(systems):
        values = [_value(summary, workload, system, value) for workload in workloads]
        axes.barh(
            [row + (at - (len(systems) - 1) / 2) * thickness for row in range(len(workloads))],
            [number or 0 for number in values],
            height=thickness * 0.9,
            color=_colour(system),
            alpha=0.45 if system in _PALE else 1,
            label=LABELS[system],
        )
    axes.set_yticks(range(len(workloads)), labels or [title_of(workload) for workload in workloads])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def ratios(axes: Axes, rows: Mapping[str, Ratio]) -> None:
    """A dot for each, with its quarters, and a line where both are the same."""
    middles = [of.middle for of in rows.values()]
    axes.errorbar(
        middles,
        range(len(rows)),
        xerr=[
            [of.middle - of.quarters[0] for of in rows.values()],
            [of.quarters[1] - of.middle for of in rows.values()],
        ],
        fmt="o",
        color=_OTTLA,
        markersize=5,
        capsize=3,
    )
    axes.axvline(1, color=_KAFKA, linewidth=1)
    axes.set_xlim(left=min(0.5, *middles), right=max(2.0, *(of.quarters[1] for of in rows.values())) + 0.1)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def lines(axes: Axes, summary: Summary, points: Mapping[float, str], value: Value) -> None:
    """A line for each system over the workloads at these places."""
    for system in systems_in(summary):
        found = [(x, y) for x, name in points.items() if (y := _value(summary, name, system, value)) is not None]
        if found:
            axes.plot(
                [x for x, _ in found],
                [y for _, y in found],
                color=_colour(system),
                linestyle="--" if system in _PALE else "-",
                marker="o",
                markersize=3.5,
                label=LABELS[system],
            )
    axes.grid(axis="y")


def logarithmic(axes: Axes, *which: str) -> None:
    """With plain numbers."""
    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,g}"))
        axis.set_minor_formatter(FuncFormatter(_minor(axis)))
    if "x" in which and axes.patches:  # bars begin at a power of ten
        least = min(
            (bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle) and bar.get_width() > 0), default=1.0
        )
        axes.set_xlim(left=10 ** math.floor(math.log10(least * 0.99)))


def _minor(axis: Axis) -> Callable[[float, object], str]:
    """Where the powers of ten alone would be too few."""

    def told(number: float, _: object) -> str:
        low, high = axis.get_view_interval()
        is_shown = high < low * 100 and f"{number:e}"[0] in "25"
        return f"{number:,g}" if is_shown else ""

    return told


def _value(summary: Summary, workload: str, system: str, value: Value) -> float | None:
    figures = summary.get(workload, {}).get(system, {})
    return None if not figures or "error" in figures else value(figures)


def figure(name: str) -> Value:
    def value(figures: Measured) -> float | None:
        found = figures.get(name)
        return None if found is None else float(found)

    return value


def cpu_per_mb(figures: Measured) -> float | None:
    """Milliseconds of broker CPU for a megabyte."""
    if not figures.get("mb_per_s") or not figures.get("rate"):
        return None
    return float(figures["broker_cpu_us"]) / 1000 / (float(figures["mb_per_s"]) / float(figures["rate"]))

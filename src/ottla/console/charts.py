"""Lines over time, as SVG: they take their colours from the page, and need nothing to be loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ottla.console.markup import Html, join, tag
from ottla.console.text import clock

WIDTH, HEIGHT = 520, 172
LEFT, RIGHT, TOP, BOTTOM = 62, 8, 8, 20
LINES = 4
SPARK_WIDTH, SPARK_HEIGHT = 96, 20
GAP_FACTOR = 4
"""Where samples are this many times further apart than usual, nobody looked: the line is broken there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    points: Sequence[tuple[int, float]]
    """Time in milliseconds, value; in order of time."""


def nice_ceiling(highest: float) -> float:
    """The least of 1, 2, 4, 5, 8, 10 times a power of ten that holds it: axes end at round figures."""
    if highest <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= highest:
        power *= 10
    while power > highest:
        power /= 10
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= highest)


def line_chart(series: Sequence[Series], *, label: str, shows: Callable[[float], str]) -> Html:
    times = [time_ms for each in series for time_ms, _ in each.points]
    if len(set(times)) < 2:
        return tag("p", "The line begins with the second look, in a few seconds.", class_="empty chart-empty")
    first, last = min(times), max(times)
    top = nice_ceiling(max(value for each in series for _, value in each.points))

    def x(time_ms: int) -> float:
        return LEFT + (time_ms - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    grid = [_grid_line(y(top * at / LINES), shows(top * at / LINES)) for at in range(LINES + 1)]
    hours = [_time_mark(x(first + (last - first) * at // 4), first + (last - first) * at // 4, at) for at in range(5)]
    drawn = [_drawn(each, number, x, y, shows) for number, each in enumerate(series)]
    picture = tag(
        "svg", *grid, *hours, *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="chart", role="img", aria_label=label
    )
    return tag("figure", picture, _legend(series, shows), class_="chart-box")


def _grid_line(at: float, text: str) -> Html:
    line = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}", class_="grid")
    return join([line, tag("text", text, x=LEFT - 8, y=f"{at + 4:.1f}", text_anchor="end")])


def _time_mark(at: float, time_ms: int, number: int) -> Html:
    anchor = "start" if number == 0 else "end" if number == 4 else "middle"
    return tag("text", clock(time_ms), x=f"{at:.1f}", y=HEIGHT - 5, text_anchor=anchor)


def _drawn(
    series: Series, number: int, x: Callable[[int], float], y: Callable[[float], float], shows: Callable[[float], str]
) -> Html:
    lines = [
        tag("polyline", points=" ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in part), class_="line")
        for part in unbroken(series.points)
    ]
    dots = [
        tag(
            "g",
            tag("title", f"{series.name}: {shows(value)} at {clock(at)}"),
            tag("circle", cx=f"{x(at):.1f}", cy=f"{y(value):.1f}", r=5, class_="dot"),
        )
        for at, value in series.points
    ]
    return tag("g", *lines, *dots, class_=f"series s{number % 6}")


def unbroken(points: Sequence[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Parts of the line in which samples follow each other as they should."""
    steps = sorted(after[0] - before[0] for before, after in pairwise(points))
    usual = steps[len(steps) // 2] if steps else 0
    parts: list[list[tuple[int, float]]] = []
    for point in points:
        if parts and point[0] - parts[-1][-1][0] <= GAP_FACTOR * usual:
            parts[-1].append(point)
        else:
            parts.append([point])
    return parts


def _legend(series: Sequence[Series], shows: Callable[[float], str]) -> Html:
    entries = [
        tag(
            "span",
            tag("i", class_=f"key s{number % 6}"),
            each.name,
            tag("b", shows(each.points[-1][1]) if each.points else ""),
        )
        for number, each in enumerate(series)
    ]
    return tag("figcaption", *entries, class_="legend")


def sparkline(values: Sequence[float], label: str) -> Html:
    if len(values) < 2:
        return tag("span", class_="spark none")
    top = max(values) or 1.0
    step = SPARK_WIDTH / (len(values) - 1)
    points = [
        f"{at * step:.1f},{SPARK_HEIGHT - 2 - value / top * (SPARK_HEIGHT - 4):.1f}" for at, value in enumerate(values)
    ]
    area = f"0,{SPARK_HEIGHT} " + " ".join(points) + f" {SPARK_WIDTH},{SPARK_HEIGHT}"
    return tag(
        "svg",
        tag("polyline", points=area, class_="area"),
        tag("polyline", points=" ".join(points), class_="line"),
        viewBox=f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}",
        class_="spark",
        role="img",
        aria_label=label,
        preserveAspectRatio="none",
    )

"""Figures in Prometheus' text format, and what the hot path counts with.

Nothing is registered anywhere: objects count with plain integers as they work, and whoever is asked for metrics walks
over them. So a figure costs the hot path one addition, and nothing at all where it can be worked out when asked for.

Labels are text from the start (`topic="x",partition="3"`): a scrape has thousands of lines, of which five at a time are
about the same thing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

LATENCY_BOUNDS_US = (
    50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000,
    100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
)  # fmt: skip
"""Close enough for a p99 by linear interpolation to be right within a third."""
_BOUNDS = tuple(map(float, LATENCY_BOUNDS_US))
"""The same, for comparisons with what was measured: between a float and a whole number they cost twice as much."""

NO_LABELS = ""
QUANTILES = (0.5, 0.95, 0.99)

Sample = tuple[str, float]
"""Labels as text, and a figure."""


class Histogram:
    """How long things took."""

    __slots__ = ("_bounds", "counts", "sum_us")

    def __init__(self) -> None:
        self._bounds = _BOUNDS
        self.counts = [0] * (len(LATENCY_BOUNDS_US) + 1)
        self.sum_us = 0.0

    def record(self, took_us: float) -> None:
        self.counts[bisect_left(self._bounds, took_us)] += 1
        self.sum_us += took_us

    def add(self, other: Histogram) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum_us += other.sum_us

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile_us(self, share: float) -> float:
        """Within a bound by interpolation; 0 where nothing was recorded."""
        wanted = share * self.count
        passed, low = 0, 0.0
        for bound, count in zip((*self._bounds, self._bounds[-1]), self.counts, strict=True):
            if count and passed + count >= wanted:
                return low + (bound - low) * (wanted - passed) / count
            passed, low = passed + count, bound
        return 0.0


class Refusals:
    """What was refused inside of answers, by API and error: as many as there are errors in the protocol."""

    __slots__ = ("_lines", "_lines_since_ms", "counts")

    LINES_MAX: Final = 5
    LINES_MS: Final = 10_000
    """So many lines of the log are written about it in so long: clients cause them, who are many or wicked."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self._lines = 0
        self._lines_since_ms = 0

    def count(self, api: str, error: str) -> None:
        self.counts[api, error] = self.counts.get((api, error), 0) + 1

    def may_tell(self, now_ms: int) -> bool:
        """Whether to write a line about one; asking counts as writing."""
        if not 0 <= now_ms - self._lines_since_ms < self.LINES_MS:
            self._lines_since_ms, self._lines = now_ms, 0
        self._lines += 1
        return self._lines <= self.LINES_MAX


class Text:
    """Prometheus' text format, put together family by family."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def counter(self, name: str, text: str, value: float) -> None:
        self.family(name, "counter", text)
        self.sample(name, value)

    def gauge(self, name: str, text: str, value: float) -> None:
        self.family(name, "gauge", text)
        self.sample(name, value)

    def gauges(self, name: str, text: str, samples: Iterable[Sample], kind: str = "gauge") -> None:
        self.family(name, kind, text)
        for labels, value in samples:
            self.sample(name, value, labels)

    def counters(self, name: str, text: str, samples: Iterable[Sample]) -> None:
        self.gauges(name, text, samples, "counter")

    def family(self, name: str, kind: str, text: str) -> None:
        self.lines.append(f"# HELP {name} {text}")
        self.lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, labels: str = NO_LABELS) -> None:
        shown = value if type(value) is int else _number(value)
        self.lines.append(f"{name}{{{labels}}} {shown}" if labels else f"{name} {shown}")

    def histogram(self, name: str, text: str, found: Iterable[tuple[str, Histogram]]) -> None:
        """In seconds, with a gauge for each quantile beside it, for those who look without Prometheus."""
        shown = list(found)
        self.family(name, "histogram", text)
        for labels, histogram in shown:
            self._buckets(name, labels, histogram)
            self.sample(f"{name}_sum", histogram.sum_us / 1_000_000, labels)
            self.sample(f"{name}_count", histogram.count, labels)
        self.gauges(
            f"{name}_quantile",
            f"{text} Quantiles since the start.",
            (
                (_joined(labels, f'quantile="{share}"'), histogram.quantile_us(share) / 1_000_000)
                for labels, histogram in shown
                for share in QUANTILES
            ),
        )

    def _buckets(self, name: str, labels: str, histogram: Histogram) -> None:
        so_far = 0
        for bound, count in zip(_BOUND_LABELS, histogram.counts, strict=True):
            so_far += count
            self.sample(f"{name}_bucket", so_far, _joined(labels, bound))


def labelled(**values: object) -> str:
    """Labels as text."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items())


def _joined(labels: str, last: str) -> str:
    return f"{labels},{last}" if labels else last


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) and not value.is_integer() else str(int(value))


_BOUND_LABELS = (*(f'le="{bound / 1_000_000}"' for bound in LATENCY_BOUNDS_US), 'le="+Inf"')

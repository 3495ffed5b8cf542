"""Figures in Prometheus' text format, and what the hot path counts with.

Nothing is registered anywhere: objects count with plain integers as they work, and whoever is asked for metrics walks
over them. So a figure costs the hot path one addition, and nothing at all where it can be worked out when asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

LATENCY_BOUNDS_US = (
    50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000,
    100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
)  # fmt: skip
"""Close enough for a p99 by linear interpolation to be right within a third."""

Labels = Mapping[str, object]
NO_LABELS: Labels = {}
QUANTILES = (0.5, 0.95, 0.99)


class Histogram:
    """How long things took."""

    __slots__ = ("_bounds", "counts", "sum_us")

    def __init__(self) -> None:
        self._bounds = LATENCY_BOUNDS_US
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

    def gauges(self, name: str, text: str, samples: Iterable[tuple[Labels, float]], kind: str = "gauge") -> None:
        self.family(name, kind, text)
        for labels, value in samples:
            self.sample(name, value, labels)

    def counters(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self.gauges(name, text, samples, "counter")

    def family(self, name: str, kind: str, text: str) -> None:
        self.lines.append(f"# HELP {name} {text}")
        self.lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, labels: Labels = NO_LABELS) -> None:
        self.lines.append(f"{name}{labelled(labels)} {_number(value)}")

    def histogram(self, name: str, text: str, found: Iterable[tuple[Labels, Histogram]]) -> None:
        """In seconds, with a gauge for each quantile beside it, for those who look without Prometheus."""
        shown = list(found)
        self.family(name, "histogram", text)
        for labels, histogram in shown:
            so_far = 0
            for bound, count in zip(LATENCY_BOUNDS_US, histogram.counts, strict=False):
                so_far += count
                self.sample(f"{name}_bucket", so_far, {**labels, "le": bound / 1_000_000})
            self.sample(f"{name}_bucket", histogram.count, {**labels, "le": "+Inf"})
            self.sample(f"{name}_sum", histogram.sum_us / 1_000_000, labels)
            self.sample(f"{name}_count", histogram.count, labels)
        self.gauges(
            f"{name}_quantile",
            f"{text} Quantiles since the start.",
            (
                ({**labels, "quantile": share}, histogram.quantile_us(share) / 1_000_000)
                for labels, histogram in shown
                for share in QUANTILES
            ),
        )


def labelled(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) and not value.is_integer() else str(int(value))

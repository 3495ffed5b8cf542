"""Counts of durations that keep their percentiles to within one percent, however many there are.

Up to 255 µs every microsecond has its own counter; from there on each power of two is cut into 128 of equal width.
Histograms of several processes add up, which averages and percentiles do not.
"""

from collections.abc import Iterable, Mapping

_EXACT_BELOW = 256
_STEPS = 128


class Histogram:
    """Durations in microseconds."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})
        """Bucket → how many; plain, so that it can be sent between processes."""
        self.total = sum(self.counts.values())

    def add(self, duration_us: int) -> None:
        bucket = bucket_of(duration_us)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1

    def percentile_us(self, percent: float) -> float | None:
        """The duration that `percent` of all do not exceed; None if there are none."""
        wanted = self.total * percent / 100
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted:
                return middle_of(bucket)
        return None


def merged(histograms: Iterable[Histogram]) -> Histogram:
    counts: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return Histogram(counts)


def bucket_of(duration_us: int) -> int:
    if duration_us < _EXACT_BELOW:
        return max(duration_us, 0)
    shift = duration_us.bit_length() - 8
    return shift * _STEPS + (duration_us >> shift)


def middle_of(bucket: int) -> float:
    """The duration that stands for a bucket."""
    if bucket < _EXACT_BELOW:
        return float(bucket)
    shift = bucket // _STEPS - 1
    return ((bucket - shift * _STEPS) << shift) + ((1 << shift) - 1) / 2

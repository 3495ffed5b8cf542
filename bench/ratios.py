"""One system's figure as a multiple of another's, repetition by repetition.

The pace of a shared machine changes by half within minutes, for whoever runs on it. Within a repetition the two are
measured one after the other, so what they have in common is in both. The middle of the ratios of all repetitions
therefore tells more than the ratio of two medians, which may be those of different moments.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.native import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    middle: float
    quarters: tuple[float, float]
    above_1: int
    pairs: int

    def __str__(self) -> str:
        low, high = self.quarters
        return f"{self.middle:.2f} [{low:.2f}-{high:.2f}]"


def of_pairs(both: Sequence[tuple[float, float]]) -> Ratio:
    """The second of each as a multiple of the first."""
    ratios = sorted(second / first for first, second in both)
    quarter = len(ratios) // 4
    return Ratio(
        middle=statistics.median(ratios),
        quarters=(ratios[quarter], ratios[-1 - quarter]),
        above_1=sum(ratio > 1 for ratio in ratios),
        pairs=len(ratios),
    )


def ratio(ours: Measured, theirs: Measured, figure: str) -> Ratio | None:
    """Of two cells of a summary. None where one of them does not have the figure, or has nothing."""
    both = [(float(their), float(our)) for our, their in zip(_each(ours, figure), _each(theirs, figure), strict=False)]
    return of_pairs(both) if both and all(our and their for our, their in both) else None


def _each(cell: Measured, figure: str) -> Sequence[float]:
    """Of every repetition, or what is there."""
    if figure in cell.get("each", {}):
        values: Sequence[float] = cell["each"][figure]
        return values
    return [cell[figure]] if figure in cell else []

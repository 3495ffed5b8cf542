"""One system's figure as a multiple of another's, repetition by repetition.

The pace of a shared machine changes by half within minutes, for whoever runs on it. Within a repetition the two are
measured one after the other, so what they have in common is in both. The middle of the ratios of all repetitions
therefore tells more than the ratio of two medians, which may be those of different moments.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.native import Measured

ONLY = 0
"""How the only repetition is numbered where nothing is said of repetitions."""


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
    """Of two cells of a summary, over the repetitions that both have. None where one of them does not have the figure,
    or has nothing.
    """
    our, their = _each(ours, figure), _each(theirs, figure)
    both = [(their[repetition], our[repetition]) for repetition in our if repetition in their]
    return of_pairs(both) if both and all(first and second for first, second in both) else None


def _each(cell: Measured, figure: str) -> Mapping[int, float]:
    """Of every repetition, or of the only one."""
    each: Mapping[int, float] | None = cell.get("each", {}).get(figure)
    if each is not None:
        return each
    return {ONLY: float(cell[figure])} if figure in cell else {}

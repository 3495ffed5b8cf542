"""What is to be run, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.native import Measured
from bench.setting import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    workloads: Sequence[str]
    systems: Sequence[str]
    windows: Windows
    repetitions: int
    warm_gb: float
    """Memory that is kept at hand for what a run writes (`bench.warm_memory`)."""
    first_repetition: int = 0
    """How they are numbered, where there are some already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    workload: str
    system: str
    repetition: int
    figures: Measured
    others: float = 0.0
    """How many cores were at work for others just before it began."""
    stolen: float = 0.0
    """Which share of all cores the host took while it ran."""
    tries: int = 1
    """How often it was made, since the host took too much (`bench.again`)."""

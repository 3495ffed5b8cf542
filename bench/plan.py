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
    touch_gb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    workload: str
    system: str
    repetition: int
    figures: Measured
    load: float = 0.0
    """The load average when it began: what else the machine was doing, and the run before."""

"""`python -m bench pairs BEFORE AFTER NAME…`: is one tree of this project quicker than another?

A machine that others share changes its pace by half within seconds, so that a handful of windows of each say as much of
the machine as of the code. Here windows are short and many, those of the two trees stand side by side, and what counts
is the ratio within each such pair: in the middle of all pairs, with the quarters of them and how many are above 1. To
see what the machine does by itself, give the same tree twice.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.native import DriverError
from bench.plan import Plan, Run
from bench.ratios import Ratio, of_pairs
from bench.runner import clean, run
from bench.setting import Windows
from bench.workloads import BY_NAME

FIGURES = ("rate", "broker_cpu_us", "p50_ms", "p99_ms")
_SIDES = ("before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One figure of a workload: of the first tree, of the second, and the second's as a multiple of the first's."""

    workload: str
    figure: str
    before: float
    after: float
    ratio: Ratio

    def __str__(self) -> str:
        low, high = self.ratio.quarters
        return (
            f"{self.workload:24} {self.figure:14} {self.before:>12,.4g} → {self.after:<12,.4g} "
            f"x {self.ratio.middle:.3f} [{low:.3f}-{high:.3f}], above 1 in {self.ratio.above_1} of {self.ratio.pairs}"
        )


def paired(runs: Sequence[Run], before: str, after: str) -> list[Paired]:
    """Of every workload and figure of which there are pairs: a window that failed takes its partner along."""
    found = []
    for workload in dict.fromkeys(done.workload for done in runs):
        by_side = {side: _by_repetition(runs, workload, side) for side in (before, after)}
        for figure in FIGURES:
            both = [
                (one.figures[figure], other.figures[figure])
                for number, one in by_side[before].items()
                if (other := by_side[after].get(number)) and one.figures.get(figure) and other.figures.get(figure)
            ]
            if both:
                found.append(_paired(workload, figure, both))
    return found


def _by_repetition(runs: Sequence[Run], workload: str, system: str) -> dict[int, Run]:
    return {done.repetition: done for done in runs if (done.workload, done.system) == (workload, system)}


def _paired(workload: str, figure: str, both: Sequence[tuple[float, float]]) -> Paired:
    return Paired(
        workload=workload,
        figure=figure,
        before=statistics.median(before for before, _ in both),
        after=statistics.median(after for _, after in both),
        ratio=of_pairs(both),
    )


def command(tree: Path, side: str) -> str:
    """A node of that tree, on this interpreter. `side` tells two of the same tree apart."""
    node = "--port {port} --data-dir {dir} --no-http --cluster-port none --set log.file_delete_delay_ms=0"
    return f"env SIDE={side} PYTHONPATH={tree.resolve() / 'src'} {sys.executable} -m ottla start {node}"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench pairs", description="Is one tree quicker than another?")
    parser.add_argument("trees", nargs=2, type=Path, metavar="TREE", help="a checkout: the one before, the one after")
    parser.add_argument("names", nargs="+", choices=sorted(BY_NAME), metavar="NAME", help="workloads (bench list)")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.8, help="the measured window")
    parser.add_argument("--warmup", type=float, default=0.4, help="load before it; a JVM gets what its compiler needs")
    arguments = parser.parse_args(argv)
    for tree in arguments.trees:
        if not (tree / "src" / "ottla").is_dir():
            parser.error(f"{tree} is no checkout of this project")
    before, after = map(command, arguments.trees, _SIDES)
    windows = Windows(seconds=arguments.seconds, warmup_s=arguments.warmup, data_scale=0.1)
    plan = Plan(
        workloads=arguments.names,
        systems=(before, after),
        windows=windows,
        repetitions=arguments.pairs,
        warm_gb=2,
    )
    try:
        runs = run(plan, done=_tell)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        clean()
    for line in paired(runs, before, after):
        print(line)
    return 1 if any("error" in done.figures for done in runs) else 0


def _tell(done: Run) -> None:
    """Only what went wrong: there are too many windows to tell of each."""
    if "error" in done.figures:
        report.tell(done)

"""Runs many seeds at once, one process per core: `python -m ottla.testing.simulate --seeds 1000 --nodes 3`.

Every failing seed is printed with the rules that it breaks; the first one is made smaller, and its story is told.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from ottla.testing.sim_plan import Faults, Plan
from ottla.testing.sim_shrink import shrink
from ottla.testing.simulation import SimulationFailedError, Workload, simulate

PROFILES = {
    "all": Faults.cluster,
    "crashes": Faults.crashes,
    "restarts": Faults.restarts,
    "partitions": Faults.partitions,
    "none": Faults.none,
}
PROGRESS_EVERY = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all seeds of a run have in common."""

    nodes: int
    faults: str
    seconds: float
    workload: Workload

    def attempt(self, seed: int, plan: Plan | None = None) -> SimulationFailedError | None:
        try:
            simulate(
                seed,
                self.workload,
                nodes=self.nodes,
                faults=PROFILES[self.faults](),
                virtual_seconds=self.seconds,
                plan=plan,
            )
        except SimulationFailedError as failure:
            return failure
        return None


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    rules: Sequence[str]
    """The first few that were broken; none: all is well."""


def run_one(setting: Setting, seed: int) -> Outcome:
    try:
        failure = setting.attempt(seed)
    except Exception as error:  # a bug of the simulator, or of what it runs: it is told, and the other seeds go on
        return Outcome(seed, [f"{type(error).__name__}: {error}"])
    return Outcome(seed, [] if failure is None else [str(violation) for violation in failure.violations[:3]])


def run_all(setting: Setting, seeds: Sequence[int], jobs: int) -> Iterator[Outcome]:
    with get_context("fork").Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(partial(run_one, setting), seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    setting = Setting(
        nodes=parsed.nodes,
        faults=parsed.faults,
        seconds=parsed.seconds,
        workload=Workload(partitions=parsed.partitions, producers=parsed.producers),
    )
    failing = _run_and_tell(setting, range(parsed.first, parsed.first + parsed.seeds), parsed.jobs)
    if failing and parsed.shrink:
        _tell_story(setting, min(failing), parsed.shrink)
    return 1 if failing else 0


def _run_and_tell(setting: Setting, seeds: Sequence[int], jobs: int) -> list[int]:
    failing: list[int] = []
    began = time.monotonic()
    for done, outcome in enumerate(run_all(setting, seeds, jobs), 1):
        if outcome.rules:
            failing.append(outcome.seed)
            _tell("\n    ".join([f"seed {outcome.seed} FAILS", *outcome.rules]))
        if done % PROGRESS_EVERY == 0 or done == len(seeds):
            _tell(f"{done} of {len(seeds)} seeds, {len(failing)} fail, {time.monotonic() - began:.0f} s")
    return failing


def _tell_story(setting: Setting, seed: int, runs_max: int) -> None:
    failure = setting.attempt(seed)
    if failure is None:
        _tell(f"seed {seed} failed in its own process but not again: something in it is not from the seed")
        return
    _tell(str(shrink(failure, lambda plan: setting.attempt(seed, plan), runs_max=runs_max)))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="virtual time under faults")
    parser.add_argument("--faults", choices=PROFILES, default="all")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--shrink", type=int, default=30, help="runs to make the first failure smaller; 0: don't")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`make bench-quick`: has a message become dearer since the committed figures?

Rates differ from hour to hour, and CPU time per message from machine to machine, but the ratio of Ottla's to Kafka's in
one interleaved run on one kind of machine hardly does. That ratio is compared with the committed one. One workload may
be dearer by `TOLERANCE_ONE`, all of them together (geometric mean) by `TOLERANCE_ALL`: repeated runs of the same
code on a quiet machine stay well within.

Without Kafka, or without committed figures of this kind of machine, there is nothing to compare with: the figures are
told, and nothing fails. `--save` makes the figures of this run those to compare with.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report, results
from bench.machine import kind, machine
from bench.native import DriverError, Measured
from bench.plan import Plan
from bench.runner import clean, run
from bench.servers import available
from bench.setting import Windows

OURS, THEIRS = "ottla", "kafka-durable"
WORKLOADS = ("produce_1conn", "produce_200conn", "batches_1kb", "default_1kb", "consume_1kb", "e2e_1k")
TOLERANCE_ONE, TOLERANCE_ALL = 1.35, 1.15
FIGURE = "broker_cpu_us"

Ratios = dict[str, float]
"""workload → Ottla's CPU per message, as a multiple of Kafka's in the same run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    lines: list[str]
    is_regression: bool


def ratios(summary: Mapping[str, Mapping[str, Measured]]) -> Ratios:
    """Of the workloads that ran on both without an error."""
    return {
        workload: systems[OURS][FIGURE] / systems[THEIRS][FIGURE]
        for workload, systems in summary.items()
        if all(systems.get(system, {}).get(FIGURE) for system in (OURS, THEIRS))
    }


def compare(now: Ratios, committed: Ratios) -> Verdict:
    """How many times dearer than the committed ratio each workload is, and all of them together."""
    shared = [workload for workload in now if workload in committed]
    if not shared:
        return Verdict(lines=["Nothing to compare with."], is_regression=False)
    growth = {workload: now[workload] / committed[workload] for workload in shared}
    together = statistics.geometric_mean(growth.values())
    lines = [
        f"{workload:18} {now[workload]:.2f} of Kafka's CPU, was {committed[workload]:.2f}: "
        f"{_judged(growth[workload], TOLERANCE_ONE)}"
        for workload in shared
    ]
    lines.append(f"{'all together':18} {_judged(together, TOLERANCE_ALL)}")
    is_worse = together > TOLERANCE_ALL or any(times > TOLERANCE_ONE for times in growth.values())
    return Verdict(lines=lines, is_regression=is_worse)


def _judged(times: float, tolerance: float) -> str:
    return f"x {times:.2f}" + (f", a regression (more than {tolerance:g})" if times > tolerance else "")


def load(path: Path, machine_kind: str) -> Ratios:
    """The committed ratios of this kind of machine; none if there are none."""
    known: dict[str, Ratios] = json.loads(path.read_text()) if path.exists() else {}
    return known.get(machine_kind, {})


def save(path: Path, machine_kind: str, now: Ratios) -> None:
    known = json.loads(path.read_text()) if path.exists() else {}
    known[machine_kind] = {workload: round(ratio, 4) for workload, ratio in now.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench quick", description="Has a message become dearer?")
    parser.add_argument("--save", action="store_true", help="keep this run's ratios as those to compare with")
    parser.add_argument("--committed", type=Path, default=results.DIRECTORY / "quick.json", metavar="FILE")
    arguments = parser.parse_args(argv)
    windows = Windows(seconds=1.5, warmup_s=0.5, data_scale=0.3)
    plan = Plan(workloads=WORKLOADS, systems=available((OURS, THEIRS)), windows=windows, repetitions=3, warm_gb=2)
    try:
        runs = run(plan, done=report.tell)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        clean()
    print(report.table(runs))
    here = kind(machine())
    now = ratios(report.medians(runs))
    if arguments.save and now:
        save(arguments.committed, here, now)
        return 0
    print(f"\nCPU per message as a multiple of Kafka's, against the committed run on {here}:")
    verdict = compare(now, load(arguments.committed, here))
    print("\n".join(verdict.lines))
    return 1 if verdict.is_regression or any("error" in done.figures for done in runs) else 0

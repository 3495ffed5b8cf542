"""`python -m bench quick | full | cluster | one NAME…`: see the package's docstring."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import apache_kafka, report
from bench.native import DriverError
from bench.runner import Plan, Run, clean, run
from bench.servers import CLUSTERS, NAMES
from bench.setting import Windows
from bench.workloads import BY_NAME, CLUSTER, FAILOVER, QUICK, WORKLOADS


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Ottla, beside Apache Kafka.")
    parser.add_argument("what", choices=["quick", "full", "cluster", "one", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all of the mode if none is named")
    parser.add_argument(
        "--systems",
        help=f"comma-separated, of {', '.join((*NAMES, *CLUSTERS))}; or a command with {{port}} and {{dir}}",
    )
    parser.add_argument("--seconds", type=float, help="the measured window")
    parser.add_argument("--warmup", type=float, help="load before the window, in seconds")
    parser.add_argument("--repeat", type=int, help="interleaved repetitions")
    parser.add_argument("--touch", type=float, help="gigabytes of page cache to touch before each run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there ('-': standard output)")
    return parser.parse_args(argv)


def _defaults(arguments: argparse.Namespace) -> Plan:
    match arguments.what:
        case "quick":
            windows = Windows(seconds=2, warmup_s=0.7, data_scale=0.6)
            return Plan(workloads=QUICK, systems=NAMES, windows=windows, repetitions=1, touch_gb=2)
        case "full":
            windows = Windows(seconds=5, warmup_s=2, data_scale=2, starts=5, idle_s=20)
            return Plan(
                workloads=tuple(name for name in BY_NAME if name not in FAILOVER),
                systems=NAMES,
                windows=windows,
                repetitions=3,
                touch_gb=4,
            )
        case "cluster":
            windows = Windows(seconds=4, warmup_s=2, starts=1, idle_s=10)
            return Plan(workloads=CLUSTER, systems=CLUSTERS, windows=windows, repetitions=2, touch_gb=2)
    windows = Windows(seconds=4, warmup_s=1)
    return Plan(workloads=arguments.names, systems=("ottla",), windows=windows, repetitions=1, touch_gb=1)


def _plan(arguments: argparse.Namespace) -> Plan:
    """What the mode says, with what the options say instead."""
    plan = _defaults(arguments)
    windows = plan.windows
    if arguments.seconds is not None:
        windows = replace(windows, seconds=arguments.seconds)
    if arguments.warmup is not None:
        windows = replace(windows, warmup_s=arguments.warmup)
    return replace(
        plan,
        windows=windows,
        workloads=arguments.names or plan.workloads,
        systems=_available(arguments.systems.split(",") if arguments.systems else plan.systems),
        repetitions=arguments.repeat or plan.repetitions,
        touch_gb=plan.touch_gb if arguments.touch is None else arguments.touch,
    )


def _available(systems: Sequence[str]) -> Sequence[str]:
    if not any(system.startswith("kafka") for system in systems):
        return systems
    try:
        apache_kafka.jars()
    except apache_kafka.KafkaUnavailableError as error:
        print(f"Ottla alone: {error}", file=sys.stderr)
        return [system for system in systems if not system.startswith("kafka")]
    return systems


def _tell(done: Run) -> None:
    print(f"{done.workload:22} {done.system:14} {report.line(done.figures)}", file=sys.stderr, flush=True)


def _stop(signal_number: int, frame: object) -> None:
    """Leave by way of an exception, so that the servers are stopped as well."""
    raise SystemExit(128 + signal_number)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    if arguments.what == "list" or not set(arguments.names) <= set(BY_NAME):
        for workload in WORKLOADS:
            print(f"{workload.name:24}{workload.title}")
        return 0 if arguments.what == "list" else 2
    signal.signal(signal.SIGTERM, _stop)
    try:
        runs = run(_plan(arguments), done=_tell)
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        clean()
    if arguments.json and str(arguments.json) == "-":
        print(json.dumps(report.as_json(runs), indent=1))
    else:
        print(report.table(runs))
        if arguments.json:
            arguments.json.write_text(json.dumps(report.as_json(runs), indent=1) + "\n")
    return 1 if any("error" in done.figures for done in runs) else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench ITEM… | quick | pairs | page | http | spark | one NAME… | list`: see the package's docstring."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import report
from bench.native import DriverError
from bench.plan import Plan
from bench.runner import clean, run
from bench.servers import CLUSTERS, NAMES, PER_CORE, available
from bench.setting import Windows
from bench.workloads import BY_NAME, HTTP, WORKLOADS


def _campaign(argv: Sequence[str]) -> int:
    from bench import campaign  # brings matplotlib along

    return campaign.main(argv)


def _quick(argv: Sequence[str]) -> int:
    from bench import quick

    return quick.main(argv)


def _pairs(argv: Sequence[str]) -> int:
    from bench import pairs

    return pairs.main(argv)


def _page(argv: Sequence[str]) -> int:
    from bench import page

    page.write_page(Path(argv[0]) if argv else None)
    return 0


def _spark(argv: Sequence[str]) -> int:
    from bench import spark  # needs pyspark, which is not everywhere

    return spark.main(argv)


_OTHERS: dict[str, Callable[[Sequence[str]], int]] = {
    "quick": _quick,
    "pairs": _pairs,
    "page": _page,
    "spark": _spark,
}
_OWN = ("one", "http", "list")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Ottla, beside Apache Kafka.")
    parser.add_argument("what", choices=_OWN)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all of the mode if none is named")
    parser.add_argument(
        "--systems",
        help=f"comma-separated, of {', '.join((*NAMES, PER_CORE, *CLUSTERS))}; or a command with {{port}} and {{dir}}",
    )
    parser.add_argument("--seconds", type=float, help="the measured window")
    parser.add_argument("--warmup", type=float, help="load before the window, in seconds")
    parser.add_argument("--repeat", type=int, help="interleaved repetitions")
    parser.add_argument("--warm", type=float, help="gigabytes of memory to keep at hand for what a run writes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there ('-': standard output)")
    return parser.parse_args(argv)


def _defaults(arguments: argparse.Namespace) -> Plan:
    if arguments.what == "http":
        windows = Windows(seconds=5, warmup_s=1)
        return Plan(workloads=HTTP, systems=("ottla",), windows=windows, repetitions=3, warm_gb=3)
    windows = Windows(seconds=4, warmup_s=1)
    return Plan(workloads=arguments.names, systems=("ottla",), windows=windows, repetitions=1, warm_gb=3)


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
        systems=available(arguments.systems.split(",") if arguments.systems else plan.systems),
        repetitions=arguments.repeat or plan.repetitions,
        warm_gb=plan.warm_gb if arguments.warm is None else arguments.warm,
    )


def _stop(signal_number: int, frame: object) -> None:
    """Leave by way of an exception, so that the servers are stopped as well."""
    raise SystemExit(128 + signal_number)


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, _stop)
    if given and given[0] in _OTHERS:
        return _OTHERS[given[0]](given[1:])
    if given and given[0] not in _OWN and not given[0].startswith("-"):
        return _campaign(given)
    return _one(_arguments(given))


def _one(arguments: argparse.Namespace) -> int:
    if arguments.what == "list" or not set(arguments.names) <= set(BY_NAME):
        for workload in WORKLOADS:
            print(f"{workload.name:26}{workload.title}")
        return 0 if arguments.what == "list" else 2
    try:
        runs = run(_plan(arguments), done=report.tell)
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

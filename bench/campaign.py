"""`python -m bench ITEM…`: measures items one after the other, and brings results and page up to date after each.

An item that is interrupted is kept as far as it came, and the page says so.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import flames, queues, results
from bench.fleet import Fleet
from bench.items import FORMS, FULL, ITEM, ITEMS, NORMAL, SHORT, Item, estimate_s, in_turn
from bench.native import DriverError
from bench.page import write_page
from bench.plan import Plan, Run
from bench.report import tell
from bench.runner import clean, new_fleet, run_on
from bench.servers import available
from bench.undecided import ITEMS as UNDECIDED
from bench.undecided import more

ALL = "all"
Done = Callable[[Run], None]


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Ottla, beside Apache Kafka.")
    parser.add_argument("items", nargs="+", choices=[ALL, *ITEM], metavar="ITEM", help=f"all, or of {', '.join(ITEM)}")
    parser.add_argument("--form", choices=FORMS, default=NORMAL, help=f"{FULL}: every combination of settings")
    parser.add_argument("--systems", help="comma-separated, instead of those of the item")
    parser.add_argument("--repeat", type=int, help="interleaved repetitions")
    parser.add_argument("--seconds", type=float, help="the measured window")
    parser.add_argument("--estimate", action="store_true", help="only say how long it would take")
    parser.add_argument(
        "--undecided", action="store_true", help="go on with results of this machine, in rows that they do not decide"
    )
    parser.add_argument("--out", type=Path, default=results.DIRECTORY, metavar="DIRECTORY", help="results and page")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    arguments = _arguments(argv)
    items = list(ITEMS) if ALL in arguments.items else [ITEM[name] for name in arguments.items]
    plans = [(item, _plan(item, arguments)) for item in in_turn(items)]
    _tell_estimates(plans)
    if arguments.estimate:
        return 0
    failed = False
    try:
        with new_fleet() as fleet:
            for item, plan in plans:
                there = results.runs_here(arguments.out, item.name, plan) if arguments.undecided else ()
                runs = measure(fleet, item, plan, arguments.form, arguments.out, there=there)
                failed = failed or any("error" in run.figures for run in runs)
    except (DriverError, results.OtherResultsError) as error:  # of a warm-up: nothing can be measured without it
        print(error, file=sys.stderr)
        return 1
    finally:
        clean()
    print(f"The page is {arguments.out / 'README.md'}")
    return 1 if failed else 0


def _plan(item: Item, arguments: argparse.Namespace) -> Plan:
    plan = item.plan(arguments.form)
    if arguments.seconds is not None:
        plan = replace(plan, windows=replace(plan.windows, seconds=arguments.seconds))
    systems = arguments.systems.split(",") if arguments.systems else plan.systems
    return replace(plan, systems=available(systems), repetitions=arguments.repeat or plan.repetitions)


def _tell_estimates(plans: Sequence[tuple[Item, Plan]]) -> None:
    total_s, running = 0.0, tuple[str, ...]()
    for item, plan in plans:
        seconds = estimate_s(plan, running=running)
        running = tuple(plan.systems)
        total_s += seconds
        print(f"{item.name:12} about {seconds / 60:4.1f} min", file=sys.stderr)
    print(f"{'together':12} about {total_s / 60:4.1f} min", file=sys.stderr, flush=True)


def measure(fleet: Fleet, item: Item, plan: Plan, form: str, out: Path, *, there: Sequence[Run] = ()) -> list[Run]:
    """What came of it is written down whether it came to its end or not. If all repetitions are there already, it goes
    on with the rows that they do not decide.
    """
    out.mkdir(parents=True, exist_ok=True)
    runs = list(there)
    began, complete = time.monotonic(), bool(there)

    def note(done: Run) -> None:
        runs.append(done)
        tell(done)

    try:
        if not there:
            _runner(fleet, item, out)(plan, note)
            complete = True
        _measure_undecided(fleet, item, plan, form, runs, note)
    finally:
        if runs:
            took_s = time.monotonic() - began
            measured = results.as_item(runs, plan, form=form, took_s=took_s, complete=complete)
            results.merge(out / "results.json", item.name, measured)
            write_page(out)
    return runs


def _measure_undecided(fleet: Fleet, item: Item, plan: Plan, form: str, runs: Sequence[Run], note: Done) -> None:
    """More repetitions of the rows of which those that there are do not agree on who is ahead."""
    rest = more(plan, runs) if item.name in UNDECIDED and form != SHORT else None
    if rest is not None:
        print(f"not decided yet: {', '.join(rest.workloads)}", file=sys.stderr, flush=True)
        run_on(fleet, rest, done=note)


def _runner(fleet: Fleet, item: Item, out: Path) -> Callable[[Plan, Done], object]:
    if item.name == "queue":
        return lambda plan, done: (fleet.servers([]), queues.run(plan, done=done))
    if item.name == "flame":
        return lambda plan, done: flames.run_on(fleet, plan, pictures=out, done=done)
    return lambda plan, done: run_on(fleet, plan, done=done)

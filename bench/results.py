"""What has been measured, item by item, in one JSON file: items may come from different quiet hours.

A new run of an item replaces the old one of that item and nothing else. Each has its own date, machine and commit,
and how busy the machine was with other work. The page is made from this file alone.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import apache_kafka
from bench.machine import is_busy, kind, machine
from bench.native import HERE, Measured
from bench.plan import Plan, Run
from bench.report import medians

Results = dict[str, dict[str, Any]]
"""item → what is known of its last run."""

DIRECTORY = HERE.parent / "docs" / "benchmarks"
_SIGNIFICANT = 5


def load(path: Path) -> Results:
    if not path.exists():
        return {}
    items: Results = json.loads(path.read_text())["items"]
    return items


def save(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"items": results}, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def merge(path: Path, item: str, measured: dict[str, Any]) -> None:
    """One item anew, the others as they are."""
    save(path, {**load(path), item: measured})


def as_item(runs: Sequence[Run], plan: Plan, *, form: str, took_s: float, complete: bool) -> dict[str, Any]:
    return {
        "measured_at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "took_s": round(took_s),
        "form": form,
        "complete": complete,
        "machine": machine(),
        "kafka_version": apache_kafka.VERSION if any(run.system.startswith("kafka") for run in runs) else None,
        "repetitions": plan.repetitions,
        "seconds": plan.windows.seconds,
        "others": round(sum(run.others for run in runs) / len(runs), 2),
        "stolen": round(sum(run.stolen for run in runs) / len(runs), 4),
        "runs": [
            {
                "workload": run.workload,
                "system": run.system,
                "repetition": run.repetition,
                "others": round(run.others, 2),
                "stolen": round(run.stolen, 4),
                "tries": run.tries,
                "figures": _short(run.figures),
            }
            for run in runs
        ],
    }


class OtherResultsError(Exception):
    """Those that are there can't be gone on with."""


def runs_here(directory: Path, item: str, plan: Plan) -> list[Run]:
    """The runs of an item that were made on this kind of machine as the plan says."""
    measured = load(directory / "results.json").get(item)
    if measured is None or not measured["complete"] or measured["seconds"] != plan.windows.seconds:
        raise OtherResultsError(f"there are no whole results of {item} with windows of {plan.windows.seconds:g} s")
    if kind(measured["machine"]) != kind(machine()):
        raise OtherResultsError(f"{item} was measured on another machine ({kind(measured['machine'])})")
    return [Run(**run) for run in measured["runs"]]


def summary(item: dict[str, Any]) -> dict[str, dict[str, Measured]]:
    """workload → system → figure → median, with `each` repetition."""
    return medians([Run(**run) for run in item["runs"]])


def was_busy(item: dict[str, Any]) -> bool:
    """Whether something else ran; False where that was not looked at."""
    return item["others"] is not None and is_busy([item["others"]], item["machine"]["cores"])


def _short(figures: Measured) -> Measured:
    return {name: _short_value(value) for name, value in figures.items()}


def _short_value(value: object) -> object:
    """Five digits are more than any of them deserves; an error is told without the paths of this machine."""
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT}g}")
    if isinstance(value, str):
        return next((line for line in value.splitlines() if os.sep not in line), "failed")
    return value

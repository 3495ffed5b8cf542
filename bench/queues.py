"""Ottla's queue in a directory beside a plain SQLite queue and persist-queue, from one process and from four.

The same messages of 100 bytes everywhere, and the same promise: what a call has taken is on disk. Runs take turns as
those of brokers do. What is read was written before, in batches.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.again import Again
from bench.machine import Stolen, others_cores
from bench.native import DriverError, Measured
from bench.package import environment
from bench.plan import Plan, Run
from bench.queue_kinds import KINDS
from bench.queue_worker import MESSAGE
from bench.runner import DATA, rotated
from bench.warm_memory import WarmMemory

TITLES = {
    "queue_single_1": "enqueue one at a time, 1 process",
    "queue_single_4": "enqueue one at a time, 4 processes",
    "queue_batched_1": "enqueue 1,000 at a time, 1 process",
    "queue_batched_4": "enqueue 1,000 at a time, 4 processes",
    "queue_read_1": "read, 1 process",
    "queue_read_4": "read, 4 processes",
}
SYSTEMS = tuple(KINDS)
FILL_PER_S = {"persist-queue": 1_000}
"""What is read, per second of the window; others than those named here read as many as `FILL_DEFAULT`."""
FILL_DEFAULT = 60_000


def run(plan: Plan, *, done: Callable[[Run], None]) -> list[Run]:
    DATA.mkdir(parents=True, exist_ok=True)
    again = Again(len(plan.workloads) * len(plan.systems) * plan.repetitions)
    runs = []
    with closing(WarmMemory(plan.warm_gb)) as memory:
        for repetition in range(plan.repetitions):
            for workload in plan.workloads:
                for system in rotated(plan.systems, repetition):
                    if "batched" in workload and not KINDS[system].has_batches:
                        continue
                    make = partial(_run, workload, system, plan, memory, repetition)
                    runs.append(again.least_disturbed(make))
                    done(runs[-1])
    return runs


def _run(workload: str, system: str, plan: Plan, memory: WarmMemory, repetition: int) -> Run:
    memory.fill()
    os.sync()
    others, stolen = others_cores(), Stolen()
    with memory.lent():
        figures = _measured(workload, system, plan.windows.seconds)
    return Run(
        workload=workload,
        system=system,
        repetition=repetition,
        figures=figures,
        others=others,
        stolen=stolen.share(),
    )


def _measured(workload: str, system: str, seconds: float) -> Measured:
    directory = DATA / "queue"
    _, action, processes = workload.split("_")
    there = int(FILL_PER_S.get(system, FILL_DEFAULT) * seconds) if action == "read" else 0
    try:
        if there:
            _fill(system, directory, there)
        measured = _summed(_work(system, directory, action, int(processes), seconds), action)
        if there:
            measured["read_again"] = max(measured["messages"] - there, 0)
        return measured
    except DriverError as error:
        return {"error": str(error)}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _fill(system: str, directory: Path, count: int) -> None:
    queue = KINDS[system](directory)
    queue.put_many([MESSAGE] * count)
    queue.close()


def _work(system: str, directory: Path, action: str, processes: int, seconds: float) -> list[Measured]:
    """What each process says it did."""
    command = [sys.executable, "-m", "bench.queue_worker", system, str(directory), action, str(seconds)]
    pipe = subprocess.PIPE
    workers = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment())
        for _ in range(processes)
    ]
    try:
        for worker in workers:
            _line(worker)
        for worker in workers:
            _go_on(worker)
        told = [json.loads(_line(worker)) for worker in workers]
        for worker in workers:
            _go_on(worker)
        for worker in workers:
            worker.wait(60)
        return told
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    assert worker.stderr is not None
    line = worker.stdout.readline()
    if not line:
        said = worker.stderr.read().strip().splitlines()
        raise DriverError(said[-1] if said else "a process ended without a word")
    return line


def _go_on(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def _summed(told: list[Measured], action: str) -> Measured:
    """Reading begins with the first message: a group of consumers meets on timers of its own."""
    count = sum(one["count"] for one in told)
    began = min(one["first"] for one in told if one["count"]) if action == "read" else min(o["began"] for o in told)
    took_s = max(one["last"] for one in told) - began
    cpu_s = sum(one["cpu_s"] for one in told)
    return {"rate": count / took_s, "messages": count, "cpu_us": cpu_s * 1e6 / count}

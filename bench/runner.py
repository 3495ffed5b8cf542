"""Runs workloads on servers in turns, so that whatever else the machine does falls on all of them alike.

All servers stay up for the whole run, since a JVM needs half a minute to warm up; all but the one being measured are
stopped with SIGSTOP, so that they use no CPU. What a run writes goes into memory that the machine has really been given
(`bench.warm_memory`), or its first touch would be charged to the broker.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.again import Again
from bench.fleet import Fleet
from bench.loads import Workload
from bench.machine import Stolen, others_cores
from bench.native import BUILD, Measured
from bench.plan import Plan, Run
from bench.servers import Server, make_server
from bench.setting import Setting
from bench.warm_memory import WarmMemory
from bench.workloads import BY_NAME

DATA = Path(os.environ.get("OTTLA_BENCH_DIR", BUILD / "data")) / str(os.getpid())
"""Of this process alone: it is removed at the end, and somebody else may be measuring too."""
SETTLE_S, LOOK_S, IDLE_SHARE = 5.0, 0.15, 0.2

T = TypeVar("T")


def run(plan: Plan, *, done: Callable[[Run], None]) -> list[Run]:
    """All workloads on all systems, `done` after each."""
    with new_fleet() as fleet:
        return run_on(fleet, plan, done=done)


def new_fleet() -> Fleet:
    DATA.mkdir(parents=True, exist_ok=True)
    return Fleet(DATA)


def run_on(fleet: Fleet, plan: Plan, *, done: Callable[[Run], None]) -> list[Run]:
    """The same on servers some of which may be up already."""
    servers = fleet.servers(plan.systems)
    again = Again(len(plan.workloads) * len(servers) * plan.repetitions)
    runs = []
    with closing(WarmMemory(plan.warm_gb)) as memory:
        for repetition in range(plan.first_repetition, plan.first_repetition + plan.repetitions):
            for name in plan.workloads:
                for server in rotated(servers, repetition):
                    make = partial(_run, name, server, plan, memory, repetition)
                    runs.append(again.least_disturbed(make))
                    done(runs[-1])
    return runs


def _run(name: str, server: Server, plan: Plan, memory: WarmMemory, repetition: int) -> Run:
    memory.fill()
    os.sync()  # or the write-back of the last run would slow this one
    others, stolen = others_cores(), Stolen()
    figures = _measure(BY_NAME[name], server, plan, memory)
    return Run(
        workload=name,
        system=server.name,
        repetition=repetition,
        figures=figures,
        others=others,
        stolen=stolen.share(),
    )


def rotated(several: Sequence[T], by: int) -> list[T]:
    """Another one begins each time."""
    by %= len(several)
    return [*several[by:], *several[:by]]


def _measure(workload: Workload, server: Server, plan: Plan, memory: WarmMemory) -> Measured:
    server.resume()

    def spare() -> Server:
        directory = server.directory.with_name(f"{server.directory.name}-spare")
        return make_server(server.name, directory, may_be_paused=False)

    try:
        setting = Setting(server=server, windows=plan.windows, spare=spare)
        if workload.lends:
            return workload.measure(replace(setting, lent=memory.lent))
        with memory.lent():
            return workload.measure(setting)
    except Exception as error:  # the other runs of a long session go on; this one is told as failed
        return {"error": _with_log(error, server)}
    finally:
        _let_it_finish(server)
        server.pause()


def _let_it_finish(server: Server) -> None:
    """Deleting thousands of partitions goes on after the answer: the next workload shall not pay for it."""
    with suppress(OSError):  # of a server that is gone
        server.wait_until_idle(within_s=SETTLE_S, share=IDLE_SHARE, look_s=LOOK_S)


def _with_log(error: Exception, server: Server) -> str:
    log = server.directory / "server.log"
    tail = log.read_text(errors="replace").splitlines()[-10:] if log.exists() else []
    return "\n".join([f"{type(error).__name__}: {error}", *tail])


def clean() -> None:
    shutil.rmtree(DATA, ignore_errors=True)

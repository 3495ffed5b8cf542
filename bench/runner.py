"""Runs workloads on servers in turns, so that whatever else the machine does falls on all of them alike.

All servers stay up for the whole run, since a JVM needs half a minute to warm up; all but the one being measured are
stopped with SIGSTOP, so that they use no CPU. Before each measurement some gigabytes of page cache are written and
thrown away: in a virtual machine the first touch of a page costs ten times a later one, and it would be charged to the
broker.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.native import BUILD, DriverError, Measured
from bench.servers import Kafka, Server, make_server
from bench.setting import Setting, Windows
from bench.wire import RequestFailedError
from bench.workloads import BY_NAME, Workload

DATA = Path(os.environ.get("OTTLA_BENCH_DIR", BUILD / "data"))
_TOUCH_CHUNK = bytes(1 << 20)
_JVM_WARM_UP = (
    "produce_1conn",
    "produce_200conn",
    "batches_1kb",
    "default_100b",
    "consume_1kb",
    "e2e_1k",
    "transactions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    workload: str
    system: str
    repetition: int
    figures: Measured
    load: float = 0.0
    """The load average when it began: what else the machine was doing, and the run before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    workloads: Sequence[str]
    systems: Sequence[str]
    windows: Windows
    repetitions: int
    touch_gb: float


def touch_page_cache(gigabytes: float) -> None:
    path = DATA / "touched"
    with open(path, "wb", buffering=0) as file:
        for _ in range(int(gigabytes * 1000)):
            file.write(_TOUCH_CHUNK)
    path.unlink()


def run(plan: Plan, *, done: Callable[[Run], None]) -> list[Run]:
    """All workloads on all systems, `done` after each."""
    DATA.mkdir(parents=True, exist_ok=True)
    with _running(plan.systems) as servers:
        runs = []
        for repetition in range(plan.repetitions):
            for name in plan.workloads:
                for server in _rotated(servers, repetition):
                    load = os.getloadavg()[0]
                    figures = _measure(BY_NAME[name], server, plan)
                    runs.append(
                        Run(workload=name, system=server.name, repetition=repetition, figures=figures, load=load)
                    )
                    done(runs[-1])
        return runs


def _rotated(servers: Sequence[Server], by: int) -> list[Server]:
    by %= len(servers)
    return [*servers[by:], *servers[:by]]


@contextlib.contextmanager
def _running(systems: Sequence[str]) -> Iterator[list[Server]]:
    servers: list[Server] = []
    try:
        for number, system in enumerate(systems):
            server = make_server(system, DATA / f"{os.getpid()}-{number}")
            servers.append(server)
            server.start()
            if isinstance(server, Kafka):
                _warm_up(server)
            server.pause()
        yield servers
    finally:
        for server in servers:
            server.stop()


def _warm_up(server: Server) -> None:
    print(f"warming up {server.name}", file=sys.stderr)
    windows = Windows(seconds=3, warmup_s=0.5, data_scale=0.5)
    for name in _JVM_WARM_UP:
        BY_NAME[name].measure(Setting(server=server, windows=windows, spare=lambda: server))


def _measure(workload: Workload, server: Server, plan: Plan) -> Measured:
    os.sync()  # or the write-back of the last run would slow this one
    touch_page_cache(plan.touch_gb)
    server.resume()

    def spare() -> Server:
        directory = server.directory.with_name(f"{server.directory.name}-spare")
        return make_server(server.name, directory, may_be_paused=False)

    try:
        return workload.measure(Setting(server=server, windows=plan.windows, spare=spare))
    except (DriverError, RequestFailedError, OSError) as error:
        return {"error": _with_log(error, server)}
    finally:
        time.sleep(0.1)
        server.pause()


def _with_log(error: Exception, server: Server) -> str:
    log = server.directory / "server.log"
    tail = log.read_text(errors="replace").splitlines()[-10:] if log.exists() else []
    return "\n".join([str(error), *tail])


def clean() -> None:
    shutil.rmtree(DATA, ignore_errors=True)

"""Where the broker's CPU time goes: flame graphs by py-spy, with the frames of C libraries.

The recording slows the broker down, since it is stopped for every sample, so that the only figure that counts is the
share of a frame. py-spy must be allowed to look into other processes: as root, or with ptrace_scope 0.
"""

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.fleet import Fleet
from bench.loads import raw, rd
from bench.machine import others_cores
from bench.native import DriverError, Measured, rdload
from bench.plan import Plan, Run
from bench.servers import Server
from bench.setting import Setting, Windows
from bench.topics import new_topic

TITLES = {
    "flame_produce": "200 producers, one record at a time",
    "flame_batches": "1 KB records in 16 KiB batches",
    "flame_fetch": "consume 1 KB",
}
_RECORD_BYTES = 1000
_RECORDS_READ = 500_000
_PARTITIONS = 6
_SAMPLES_PER_S = 200


def run_on(fleet: Fleet, plan: Plan, *, pictures: Path, done: Callable[[Run], None]) -> list[Run]:
    """Each workload once, recorded into `pictures`."""
    [server] = fleet.servers(plan.systems)
    server.resume()
    runs = []
    for workload in plan.workloads:
        others = others_cores()
        figures = _recorded(server, workload, plan.windows, pictures / f"{workload.replace('_', '-')}.svg")
        runs.append(Run(workload=workload, system=server.name, repetition=0, figures=figures, others=others))
        done(runs[-1])
    server.pause()
    return runs


@contextmanager
def _load(server: Server, workload: str, windows: Windows) -> Iterator[Callable[[], object]]:
    """A load for some seconds that can be repeated; what it needs is there."""
    at = Setting(server=server, windows=windows, spare=lambda: server)
    if workload == "flame_produce":
        yield lambda: raw(workload, connections=200, record_bytes=50)(at)
    elif workload == "flame_batches":
        yield lambda: rd(workload, "produce", record_bytes=_RECORD_BYTES, batch_bytes=16384)(at)
    else:
        common: dict[str, object] = {"bootstrap": server.bootstrap, "partitions": _PARTITIONS, "count": _RECORDS_READ}
        with new_topic(server, workload, _PARTITIONS) as (topic, _):
            rdload(mode="fill", topic=topic, record_bytes=_RECORD_BYTES, **common)
            yield lambda: rdload(mode="consume", topic=topic, **common)


class _Repeated(threading.Thread):
    """The load, again and again until the recording is over."""

    def __init__(self, load: Callable[[], object]) -> None:
        super().__init__()
        self._load = load
        self.is_over = threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self._load()
        except (DriverError, OSError) as error:
            self.failed = error


def _recorded(server: Server, workload: str, windows: Windows, picture: Path) -> Measured:
    with _load(server, workload, windows) as load:
        repeated = _Repeated(load)
        repeated.start()
        try:
            figures = _record(server.pids[0], windows.seconds, picture, title=TITLES[workload])
        except DriverError as error:
            figures = {"error": str(error)}
        finally:
            repeated.is_over.set()
            repeated.join()
    return figures if repeated.failed is None else {"error": str(repeated.failed)}


def _record(pid: int, seconds: float, picture: Path, *, title: str) -> Measured:
    command = [str(Path(sys.executable).with_name("py-spy")), "record", "--native", "--pid", str(pid)]
    command += ["--duration", str(int(seconds)), "--rate", str(_SAMPLES_PER_S), "--output", str(picture)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise DriverError("py-spy is not installed: run make install") from error
    if done.returncode != 0:
        raise DriverError(f"py-spy: {done.stderr.strip()}")
    picture.write_text(picture.read_text().replace(shlex.join(command), title))
    samples = re.search(r"Samples: (\d+) Errors: (\d+)", done.stdout + done.stderr)
    return {"samples": int(samples[1]), "lost": int(samples[2])} if samples else {"samples": 0, "lost": 0}

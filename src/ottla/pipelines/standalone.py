"""A Spark cluster on this machine: a master and workers, each a process of its own, from the pip package alone.

For looking at how the pipeline runs on a cluster, and for tests of it; a real one is started by whoever has it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from ottla.errors import OttlaError
from ottla.spark import LOCAL_IP, LOOPBACK, require_java

__all__ = ["SparkCluster"]

READY_WITHIN_S: Final = 180.0
STOP_WITHIN_S: Final = 30.0
WORKER_MEMORY: Final = "1g"
CONF: Final = {"spark.executor.memory": "800m", "spark.executor.cores": "1"}
"""For drivers: what fits into a worker."""


class SparkClusterError(OttlaError):
    """A master or worker did not start."""


class SparkCluster:
    """Lives as long as its `with` block. Logs and work are in `directory`."""

    conf = CONF

    def __init__(self, directory: Path, workers: int = 2) -> None:
        require_java()
        self._directory = directory
        self._workers = workers
        self._port, self._page_port = _free_port(), _free_port()
        self._processes = ExitStack()

    @property
    def master(self) -> str:
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def page(self) -> str:
        return f"http://{LOOPBACK}:{self._page_port}"

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            master = ["master.Master", "--port", str(self._port), "--webui-port", str(self._page_port)]
            started = [self._start("spark-master", *master)]
            for number in range(1, self._workers + 1):
                work = str(self._directory / f"spark-work-{number}")
                worker = ["worker.Worker", "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0"]
                started.append(self._start(f"spark-worker-{number}", *worker, "--work-dir", work, self.master))
            self._wait(started)
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return 0

    def _start(self, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = _spark_home()
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", LOOPBACK, *arguments]
        environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, LOCAL_IP: LOOPBACK}
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.callback(_stop, process)
        return process

    def _wait(self, processes: list[subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while self.alive_workers() < self._workers:
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise SparkClusterError(f"the Spark cluster did not start: see {self._directory}/spark-*.log")
            time.sleep(0.2)


def _spark_home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkClusterError("Spark is not installed: pip install 'ottla[spark]'")
    return Path(found.origin).parent


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port

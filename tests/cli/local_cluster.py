"""A cluster as users run it: `ottla up`, in a directory and on ports of its own."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.cli.command import SCRIPT, Ottla, environment
from tests.ports import free_ports

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 60.0
READY_LINE = re.compile(r"node (\d+)  ([\d.:]+)  pid (\d+)")


class LocalCluster:
    def __init__(self, directory: Path, nodes: int = 3, *flags: str) -> None:
        self.data_dir = directory / "data"
        self.nodes = nodes
        self.port = free_ports(nodes)
        self.cluster_port = free_ports(nodes)
        self.lines: list[str] = []
        self._flags = flags
        self._changed = threading.Condition()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + at}" for at in range(self.nodes))

    @property
    def ottla(self) -> Ottla:
        return Ottla(self.bootstrap)

    def launch(self) -> Self:
        command = [SCRIPT, "up", "--nodes", str(self.nodes), "--data-dir", str(self.data_dir)]
        command += ["--port", str(self.port), "--cluster-port", str(self.cluster_port), *self._flags]
        self.process = subprocess.Popen(
            command, env=environment(None), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        """Until what it printed makes `condition` true."""
        with self._changed:
            assert self._changed.wait_for(condition, READY_WITHIN_S), self.told()

    def pids(self) -> dict[int, list[int]]:
        """The processes that each node has had."""
        found: dict[int, list[int]] = {}
        for line in self.lines:
            ready = READY_LINE.match(line)
            if ready is not None:
                found.setdefault(int(ready[1]), []).append(int(ready[3]))
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        os.kill(self.process.pid, number)
        code = self.process.wait(STOPPED_WITHIN_S)
        self._close()
        return code

    def _close(self) -> None:
        self._reader.join(STOPPED_WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def log(self, node: int) -> str:
        return (self.data_dir / f"node-{node}.log").read_text(errors="replace")

    def told(self) -> str:
        logs = [f"--- node {node}\n{self.log(node)}" for node in range(1, self.nodes + 1) if self._has_log(node)]
        return "\n".join([*self.lines, *logs])

    def _has_log(self, node: int) -> bool:
        return (self.data_dir / f"node-{node}.log").exists()

    def __enter__(self) -> Self:
        self.launch()
        try:
            self.until(lambda: len(self.pids()) == self.nodes or self.process.poll() is not None)
            assert self.process.poll() is None, self.told()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOPPED_WITHIN_S)
        self._close()

"""A node as users run it: `ottla start` in a process of its own, that can be stopped, killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.ports import free_port

READY_WITHIN_S = 30.0


class NodeProcess:
    """One node on a fixed port and directory over any number of starts."""

    def __init__(self, directory: Path, *flags: str, port: int | None = None) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.port = port or free_port()
        self.host = "127.0.0.1"
        self.prefix: list[str] = []
        """What the command begins with: something that runs it elsewhere."""
        self.environment: dict[str, str] = {}
        """Added to that of this process."""
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log_file(self) -> Path:
        return self.directory / "node.log"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def flags(self) -> list[str]:
        return list(self._flags)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it to answer."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*self.prefix, str(Path(sys.executable).with_name("ottla")), "start"]
        command += ["--port", str(self.port), "--data-dir", str(self.data_dir), *self.flags()]
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment}
            )
        return self._process

    def start(self) -> Self:
        process = self.launch()
        deadline = time.monotonic() + READY_WITHIN_S
        while not accepts_connections(self.port):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the node did not start:\n{self.log()}")
            process_wait(process, 0.01)
        return self

    def stop(self, *, within_s: float = 30) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node did not stop within {within_s} s:\n{self.log()}") from None

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    close = kill

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def process_wait(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait for a process to end, but no longer than that."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

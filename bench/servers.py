"""The servers under test, each a process of its own that can be paused while another one is measured."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from bench import apache_kafka
from bench.processes import cpu_s, stop
from bench.wire import wait_until_ready

_READY_WITHIN_S = 60.0


class Server(ABC):
    """One broker on a free port with an empty directory."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.start_s = 0.0
        """From the start of the process to its first answer."""
        self.start_cpu_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _launch(self) -> subprocess.Popen[bytes]:
        """Start the process; `port` and `directory` are set."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    def start(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.port = _free_port()
        self.prepare()
        began = time.monotonic()
        self._process = self._launch()
        self.start_s = wait_until_ready(self.port, within_s=_READY_WITHIN_S) - began
        self.start_cpu_s = cpu_s(self.pid)

    def prepare(self) -> None:  # noqa: B027 - most servers have nothing to do here
        """What has to be done before the clock of the start runs."""

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process)
        shutil.rmtree(self.directory, ignore_errors=True)


class Ottla(Server):
    """`ottla start` from this repository."""

    def __init__(self, directory: Path, durability: str) -> None:
        super().__init__(directory)
        self.name = "ottla" if durability == "commit" else f"ottla-{durability}"
        self._durability = durability

    def _launch(self) -> subprocess.Popen[bytes]:
        ottla = Path(sys.executable).with_name("ottla")
        command = [str(ottla), "start", "--port", str(self.port), "--data-dir", str(self.directory / "data")]
        command += ["--durability", self._durability]
        with open(self.directory / "server.log", "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


class Kafka(Server):
    """Apache Kafka, with its default of leaving the disk to the system or synced for every request as Ottla does."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        super().__init__(directory)
        self.name = "kafka-durable" if durable else "kafka"
        # Paused brokers must not look dead to their own controller when they go on.
        self._settings = {"broker.session.timeout.ms": "3600000", "log.retention.hours": "-1"}
        if durable:
            self._settings["log.flush.interval.messages"] = "1"

    def prepare(self) -> None:
        apache_kafka.format_storage(self.port, self.directory, settings=self._settings)

    def _launch(self) -> subprocess.Popen[bytes]:
        return apache_kafka.start_server(self.directory)


class Command(Server):
    """Any other server: a command line in which {port} and {dir} are filled in."""

    def __init__(self, directory: Path, command: str) -> None:
        super().__init__(directory)
        self.name = command

    def _launch(self) -> subprocess.Popen[bytes]:
        command = self.name.format(port=self.port, dir=self.directory / "data")
        with open(self.directory / "server.log", "wb") as log:
            return subprocess.Popen(command.split(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)


NAMES = ("ottla", "kafka-durable", "ottla-os", "kafka")
"""Durable against durable, then page cache against page cache."""


def make_server(name: str, directory: Path) -> Server:
    match name:
        case "ottla":
            return Ottla(directory, "commit")
        case "ottla-os":
            return Ottla(directory, "os")
        case "kafka":
            return Kafka(directory, durable=False)
        case "kafka-durable":
            return Kafka(directory, durable=True)
    return Command(directory, name)


def _free_port() -> int:
    """A port that was free a moment ago, and the one after it: Kafka's controller takes that."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    with socket.socket() as two:
        try:
            two.bind(("127.0.0.1", port + 1))
        except OSError:
            return _free_port()
    return port

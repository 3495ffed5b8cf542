"""The servers under test, each a process of its own that can be paused while another one is measured."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from bench import apache_kafka
from bench.package import environment, package
from bench.processes import cpu_s, rss_mb, stop
from bench.wire import wait_until_ready

_READY_WITHIN_S = 300.0
"""A broker that reads ten gigabytes again after a crash takes its time."""
_STOPPED_WITHIN_S = 60.0
_PORTS = (20_000, 32_000)


class Server(ABC):
    """A broker, or a cluster of them, on free ports with an empty directory."""

    name: str
    brokers = 1

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports: list[int] = []
        self.start_s = 0.0
        """From the start of the first process to an answer that names all brokers."""
        self.start_cpu_s = 0.0
        self.processes: list[subprocess.Popen[bytes]] = []
        self.kept_topics: dict[str, str] = {}
        """Those that are there until it stops, by the workload that they were made for."""

    @abstractmethod
    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        """Start the process of one broker, counted from 0; `ports` and `directory` are set."""

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def replicas(self) -> int:
        """Of the topics that are written to."""
        return self.brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))

    def wait_until_idle(self, *, within_s: float, share: float, look_s: float) -> None:
        """Until it takes less than this share of a core from one look to the next, or that long."""
        deadline = time.monotonic() + within_s
        before_s = self.cpu_s()
        while time.monotonic() < deadline:
            time.sleep(look_s)
            now_s = self.cpu_s()
            if now_s - before_s <= share * look_s:
                return
            before_s = now_s

    def rss_mb(self) -> float:
        return sum(map(rss_mb, self.pids))

    def start(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.ports = [_free_port() for _ in range(self.brokers)]
        self.prepare()
        self.start_again()

    def start_again(self) -> None:
        """With the data that is there."""
        began = time.monotonic()
        self.processes = [self._launch(number) for number in range(self.brokers)]
        ready = [self._ready_at(number) for number in range(self.brokers)]
        self.start_s = max(ready) - began
        self.start_cpu_s = self.cpu_s()

    def _ready_at(self, number: int) -> float:
        """When this broker answered: it, and nobody else on its port, which it may have failed to get."""
        process = self.processes[number]

        def is_alive() -> bool:
            return process.poll() is None

        ready = wait_until_ready(self.ports[number], within_s=_READY_WITHIN_S, brokers=self.brokers, is_alive=is_alive)
        if not is_alive():
            raise ConnectionRefusedError(f"{self.name} ended while it started")
        return ready

    def prepare(self) -> None:  # noqa: B027 - most servers have nothing to do here
        """What has to be done before the clock of the start runs."""

    def pause(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Stop in order, and leave the data there."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            stop(process, within_s=_STOPPED_WITHIN_S)

    def kill(self) -> None:
        """kill -9, and leave the data there."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def stop(self) -> None:
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)


class Ottla(Server):
    """`ottla start` of this repository, as a wheel of it has it."""

    def __init__(self, directory: Path, durability: str) -> None:
        super().__init__(directory)
        self.name = "ottla" if durability == "commit" else f"ottla-{durability}"
        self._durability = durability

    @property
    def http_port(self) -> int:
        """Of the first node."""
        return self.ports[0] + 1

    def prepare(self) -> None:
        """Before the clock runs: what has changed is compiled."""
        package()

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        return self._run(number, [])

    def _run(self, number: int, options: list[str]) -> subprocess.Popen[bytes]:
        ottla = Path(sys.executable).with_name("ottla")
        command = [str(ottla), "start", "--port", str(self.ports[number]), "--http-port", str(self.ports[number] + 1)]
        command += ["--data-dir", str(self.directory / f"data-{number}"), "--durability", self._durability, *options]
        command += ["--set", "log.file_delete_delay_ms=0"]  # or the files of one run are removed in the next
        with open(self.directory / "server.log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment())


class OttlaCluster(Ottla):
    """Three nodes that found a cluster together."""

    brokers = 3

    def __init__(self, directory: Path, durability: str, *, may_be_paused: bool = True) -> None:
        super().__init__(directory, durability)
        self.name += f"-{self.brokers}"
        self._may_be_paused = may_be_paused

    def prepare(self) -> None:
        super().prepare()
        self._cluster_ports = [_free_port() for _ in range(self.brokers)]

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        options = ["--node-id", str(number + 1), "--cluster-port", str(self._cluster_ports[number])]
        options += ["--seeds", ",".join(f"127.0.0.1:{port}" for port in self._cluster_ports)]
        if self._may_be_paused:
            patient = self.directory / "patient.yaml"
            patient.write_text("cluster:\n  broker_session_timeout_ms: 1h\n  broker_lease_ms: 1h\n")
            options += ["--config", str(patient)]
        return self._run(number, options)


class OttlaPerCore(OttlaCluster):
    """A node for each of two cores, and topics of one copy whose partitions they share: how a machine is filled."""

    brokers = 2

    @property
    def replicas(self) -> int:
        return 1


class Kafka(Server):
    """Apache Kafka, with its default of leaving the disk to the system or synced for every request as Ottla does."""

    def __init__(self, directory: Path, *, durable: bool, may_be_paused: bool = True) -> None:
        super().__init__(directory)
        self.name = "kafka-durable" if durable else "kafka"
        self._settings = {"log.retention.hours": "-1", "log.segment.delete.delay.ms": "0"}
        if may_be_paused:  # then brokers must not look dead to their own controller when they go on
            self._settings["broker.session.timeout.ms"] = "3600000"
        if durable:
            self._settings["log.flush.interval.messages"] = "1"

    def prepare(self) -> None:
        apache_kafka.format_storage(self.ports, self.directory, settings=self._settings)

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        return apache_kafka.start_server(self.directory, number)


class KafkaCluster(Kafka):
    """Three brokers that are controllers too."""

    brokers = 3

    def __init__(self, directory: Path, *, durable: bool, may_be_paused: bool = True) -> None:
        super().__init__(directory, durable=durable, may_be_paused=may_be_paused)
        self.name += "-3"


class Command(Server):
    """Any other server: a command line in which {port} and {dir} are filled in."""

    def __init__(self, directory: Path, command: str) -> None:
        super().__init__(directory)
        self.name = command

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        command = self.name.format(port=self.port, dir=self.directory / "data")
        with open(self.directory / "server.log", "wb") as log:
            return subprocess.Popen(command.split(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)


NAMES = ("ottla", "kafka-durable", "ottla-os", "kafka")
"""Durable against durable, then page cache against page cache."""
PER_CORE = "ottla-2"
CLUSTERS = ("ottla-3", "kafka-durable-3", "kafka-3")


def available(systems: Sequence[str]) -> Sequence[str]:
    """Those that can run here: without Java or Maven, Ottla alone."""
    if not any(system.startswith("kafka") for system in systems):
        return systems
    try:
        apache_kafka.jars()
    except apache_kafka.KafkaUnavailableError as error:
        print(f"Ottla alone: {error}", file=sys.stderr)
        return [system for system in systems if not system.startswith("kafka")]
    return systems


def make_server(name: str, directory: Path, *, may_be_paused: bool = True) -> Server:
    """`may_be_paused`: brokers are not taken for dead after a pause. Without it failures are noticed as usual."""
    match name:
        case "ottla":
            return Ottla(directory, "commit")
        case "ottla-os":
            return Ottla(directory, "os")
        case "ottla-2":
            return OttlaPerCore(directory, "commit", may_be_paused=may_be_paused)
        case "ottla-3":
            return OttlaCluster(directory, "commit", may_be_paused=may_be_paused)
        case "ottla-os-3":
            return OttlaCluster(directory, "os", may_be_paused=may_be_paused)
        case "kafka" | "kafka-durable":
            return Kafka(directory, durable=name == "kafka-durable", may_be_paused=may_be_paused)
        case "kafka-3" | "kafka-durable-3":
            return KafkaCluster(directory, durable=name == "kafka-durable-3", may_be_paused=may_be_paused)
    return Command(directory, name)


def _free_port() -> int:
    """A port that is free now, and so is the one after it: Kafka's controller or Ottla's HTTP API takes that.

    Not one that the system hands out itself: a JVM takes seconds to start, and somebody else would have it by then.
    """
    while True:
        port = random.randrange(*_PORTS, 2)
        if _is_free(port) and _is_free(port + 1):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

"""The image's entry point, run as three pods of a StatefulSet run it: by name, with the environment of the manifest.

Each pod has an address of its own of the loopback network, with the ports it has in its container. Its names are in a
hosts file that only the pods see: each process has mounts of its own.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interop.node_process import process_wait
from tests.interop.waiting import eventually
from tests.programs import require

REPOSITORY = Path(__file__).parents[2]
DOCKER = REPOSITORY / "deploy" / "docker"
SERVICE = "ottla.test.svc.cluster.local"
KAFKA, HTTP, CLUSTER = 9092, 8080, 7946
READY_WITHIN_S = 60.0
UNSHARE = ("unshare", "--map-root-user", "--mount")


def require_mounts_of_its_own() -> None:
    require("unshare")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("processes can't have mounts of their own here: pods would have no names")


def among_pods(hosts: Path, command: list[str]) -> list[str]:
    """The command, run where the names of the pods are known."""
    return [*UNSHARE, "sh", "-c", f"mount --bind {shlex.quote(str(hosts))} /etc/hosts && exec {shlex.join(command)}"]


class Pod:
    def __init__(self, directory: Path, number: int, address: str, hosts: Path) -> None:
        self.name = f"ottla-{number}"
        self.address = address
        self.directory = directory / self.name
        self._hosts = hosts
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.address}:{KAFKA}"

    @property
    def url(self) -> str:
        return f"http://{self.address}:{HTTP}"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
            "POD_NAME": self.name,
            "POD_SERVICE": SERVICE,
            "POD_REPLICAS": "3",
            "OTTLA_ADDRESS": self.address,
            "OTTLA_DATA_DIR": str(self.directory / "data"),
            "OTTLA_RACK": f"zone-{self.name}",
        }

    def start(self, config: Path) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [str(DOCKER / "entrypoint.sh"), "start", "--config", str(config)]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                among_pods(self._hosts, command),
                env=self.environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def until_ready(self) -> None:
        """As the readiness probe asks."""
        assert self._process is not None
        for _ in range(int(READY_WITHIN_S / 0.1)):
            assert self._process.poll() is None, self.log
            if self.health().get("ready"):
                return
            process_wait(self._process, 0.1)
        raise AssertionError(self.log)

    def health(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = httpx.get(f"{self.url}/health", timeout=5).json()
        except httpx.HTTPError:
            return {}
        return found

    def stop(self) -> int:
        """As Kubernetes does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)


class Pods:
    def __init__(self, directory: Path, config: Path) -> None:
        self._config = config
        network = free_network()
        self.hosts = hosts = directory / "hosts"
        addresses = [f"{network}.{number + 1}" for number in range(3)]
        lines = [f"{address} ottla-{number}.{SERVICE}" for number, address in enumerate(addresses)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self.pods = [Pod(directory, number, address, hosts) for number, address in enumerate(addresses)]

    @property
    def bootstrap(self) -> str:
        """By address: the names are known to the pods alone."""
        return ",".join(pod.bootstrap for pod in self.pods)

    def start(self) -> None:
        for pod in self.pods:
            pod.start(self._config)
        for pod in self.pods:
            pod.until_ready()

    def until_in_service(self) -> None:
        """All of them, as the cluster sees it: one that a busy machine held up for seconds is fenced for a moment."""
        eventually(lambda: [broker["state"] for broker in self.status().get("brokers", [])] == ["in service"] * 3)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.pods[0].url}/cluster/status", timeout=30).json()
        return found

    def create(self, topic: str, *, partitions: int) -> httpx.Response:
        return httpx.post(f"{self.pods[0].url}/topics/{topic}", json={"num_partitions": partitions}, timeout=30)

    def delete(self, topic: str) -> httpx.Response:
        return httpx.delete(f"{self.pods[0].url}/topics/{topic}", timeout=30)

    def kill(self) -> None:
        """Whatever still runs."""
        for pod in self.pods:
            pod.kill()

    def stop(self) -> list[int]:
        return [pod.stop() for pod in self.pods]


def free_network() -> str:
    """Of 127.0.0.0/8, one of which nobody uses an address: tests may run side by side."""
    for _ in range(100):
        network = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        if all(_is_free(f"{network}.{host}", port) for host in (1, 2, 3) for port in (KAFKA, HTTP, CLUSTER)):
            return network
    raise AssertionError("no network is free")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind((address, port))
        except OSError:
            return False
        return True
